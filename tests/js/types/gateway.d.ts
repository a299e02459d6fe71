// The steps by which a page tests the gateway, and what it hears.

declare namespace Gateway {
  interface Heard {
    status: number;
    words: string;
    thoughts: string;
    calls: string;
    finish: string;
    firstMs: number | null;
  }

  /** What an event adds its words to. */
  type Words = Pick<Heard, "words" | "thoughts" | "calls" | "finish">;

  interface Listing {
    what: string;
    path: string;
    hasTool?: undefined;
    body?: undefined;
  }

  interface Question {
    what: string;
    path: string;
    hasTool: boolean;
    headers: Record<string, string>;
    body: { model: string; [name: string]: unknown };
    take: (event: Streamed, heard: Words) => void;
  }

  type Step = Listing | Question;

  /** A name that a key may ask. */
  interface Model {
    id: string;
    server: string;
    ready: boolean;
    why?: string;
  }

  /** Why a step failed. */
  interface Refusal {
    status: number | null;
    code: string;
    retryAfter: string;
    isCut: boolean;
    isForeign: boolean;
    message: string;
    heard?: Words;
  }
}

/** An event of an engine's stream, of any of the dialects: nothing of it is certain. */
interface Streamed {
  error?: string | { message?: string; code?: string } | null;
  type?: string;
  usage?: Chat.Usage;
  timings?: Chat.Timings;
  choices?: {
    delta?: {
      content?: unknown;
      reasoning?: unknown;
      reasoning_content?: unknown;
      tool_calls?: StreamedCall[] | null;
    };
    finish_reason?: string | null;
    matched_stop?: unknown;
    stop_reason?: unknown;
    meta_info?: Chat.Answer["meta"];
    logprobs?: { content?: unknown } | null;
  }[];
  delta?: { text?: unknown; thinking?: unknown; stop_reason?: string | null };
  content_block?: { type?: string; name?: unknown };
  message?: unknown;
  detail?: unknown;
  data?: Gateway.Model[];
  why?: string;
}

interface StreamedCall {
  index?: unknown;
  id?: string;
  function?: { name?: unknown; arguments?: unknown };
}
