// What the playground keeps of a conversation, and what engines say.

declare namespace Chat {
  interface Picture {
    name: string;
    /** A data: URL. */
    url: string;
    width: number;
    height: number;
    bytes: number;
    note: string;
  }

  /** Read in the browser. `bytes`: of the file. */
  interface TextFile {
    name: string;
    text: string;
    bytes: number;
  }

  type Attached = Picture | TextFile;

  interface Said {
    /** Its place in `every`; undefined: the message before it, -1: none. */
    parent?: number;
    /** Where a comparison has taken it from another conversation. */
    copied?: boolean;
  }

  interface Question extends Said {
    role: "user";
    content: string;
    images?: Picture[];
    files?: TextFile[];
  }

  interface Call {
    id: string;
    name: string;
    /** JSON, as far as the model has written such. */
    arguments: string;
  }

  interface Failure {
    message: string;
    detail: string;
  }

  interface Answer extends Said {
    role: "assistant";
    server: string;
    url: string;
    model: string;
    content: string;
    reasoning: string;
    /** With holes, where an engine has left out a number. */
    calls: (Call | null | undefined)[];
    usage: Usage | null;
    chunks: number;
    finish: string;
    firstMs: number | null;
    spanMs: number | null;
    reasonedMs: number | null;
    stopped: boolean;
    error: Failure | null;
    running: boolean;
    /** Where it goes on without its page: keys of conversation and answer, with a slash. */
    key?: string;
    request?: Sent;
    timings?: Timings;
    matched?: string;
    meta?: { spec_accept_rate?: unknown };
    logprobs?: Logprob[];
  }

  interface Result extends Said {
    role: "tool";
    tool_call_id: string;
    name: string;
    content: string;
  }

  type Message = Question | Answer | Result;

  /** A token, its logprob, and those that were nearly chosen. */
  type Logprob = [token: string, logprob: number, others: [token: string, logprob: number][]];

  interface Usage {
    prompt_tokens?: number;
    completion_tokens?: number;
    reasoning_tokens?: number;
    cached_tokens?: number;
    prompt_tokens_details?: { cached_tokens?: number; multimodal_tokens?: { image?: number } } | null;
    completion_tokens_details?: {
      reasoning_tokens?: number;
      accepted_prediction_tokens?: number;
      rejected_prediction_tokens?: number;
    } | null;
  }

  /** llama.cpp's own figures. */
  interface Timings {
    predicted_per_second?: unknown;
    cache_n?: number;
    draft_n?: number;
    draft_n_accepted?: number;
  }

  interface Tool {
    type: "function";
    function: { name: string; description?: string; parameters?: unknown };
  }

  /** What of a request an answer keeps: all but the messages. */
  interface Sent {
    model?: string;
    max_tokens?: number;
    max_completion_tokens?: number;
    tools?: Tool[];
    response_format?: { type: string; json_schema?: { schema?: unknown } };
    [name: string]: unknown;
  }

  /** As engines want them. */
  type Told =
    | { role: "system" | "user" | "assistant"; content: string }
    | { role: "user"; content: Part[] }
    | { role: "assistant"; content: string; tool_calls: ToldCall[]; reasoning_content?: string }
    | { role: "tool"; tool_call_id: string; content: string };

  type Part = { type: "text"; text: string } | { type: "image_url"; image_url: { url: string } };

  interface ToldCall {
    id: string;
    type: "function";
    function: { name: string; arguments: string };
  }

  /** As typed: by the name of the field. */
  type Params = Record<string, string>;

  interface ToolsText {
    text: string;
    choice: string;
  }

  interface SchemaText {
    mode: string;
    text: string;
  }

  /** What stands beside a conversation and is kept with it. */
  interface Beside {
    tools: ToolsText | null;
    schema: SchemaText | null;
  }

  interface Settings extends Beside {
    params: Params;
  }

  interface Conversation extends Settings {
    id: string;
    name: string;
    server: string;
    /** All that was ever said. */
    every: Message[];
    /** The path through `every` that is shown. */
    messages: Message[];
    /** ms, by the server's clock once it is kept. */
    updated: number;
    comparison?: string;
    column?: number;
    title?: string;
    /** The address under which it is shared; "" where it is not. */
    shared?: string;
    /** Whether an answer is arriving in another tab. */
    elsewhere?: boolean;
    /** ms, of what a browser kept before the server did. */
    since?: number;
  }

  /** As it is kept: `messages` are all, `leaf` is the last of the path. */
  type Kept = Omit<Conversation, "every"> & { leaf?: number | null };

  /** As the server has it. */
  type Found = Kept & { revision: string; age: number; count?: number };

  /** A line of the list of conversations. */
  interface Row {
    id: string;
    title: string;
    updated: number;
    comparison?: string;
    revision?: string;
  }

  /** A server, as the page's hidden list has it. */
  interface Server {
    slug: string;
    box: string;
    on: string; // the same, "" where the person may not know it
    state: string;
    wanted: string;
    model: string;
    url: string;
    engine: string;
    images: string;
    tools: string;
    /** Tokens of the longest request; 0: nobody can tell. */
    context: number;
    lacks: string;
    run: number;
    isReady: boolean;
  }

  /** Who is to answer. */
  type Answerer = Pick<Server, "slug" | "url" | "model">;

  interface Lack {
    key: LackKey;
    says: string;
    fix?: string;
    url?: string;
    edit?: string;
  }

  type LackKey = "tools" | "reasoning" | "cached";

  /** What the page asks the server to ask an engine. */
  interface Body {
    run: number | undefined;
    messages: Told[];
    params: Record<string, unknown>;
    /** Keys under which the answer goes on without its page. */
    conversation?: string;
    answer?: string;
  }

  /** What a row of parameters is called by each engine. */
  interface Parameter {
    name: string;
    kind: string;
    names: Record<string, string>;
    notes: Record<string, string>;
  }

  interface Preset {
    id: number;
    name: string;
    by: string;
    params?: Params;
    tools: ToolsText | null;
    schema: SchemaText | null;
  }

  /** The servers of a page, or those of a column. */
  interface Choice extends EventTarget {
    readonly wanted: string;
    find(slug: string): Server | undefined;
  }

  /** A message in the page. */
  interface View {
    root: HTMLElement;
    message: Message;
    wait?(text: string): void;
    update?(): void;
    finish?(): void;
    edit?(): void;
    onDraw?: () => void;
  }

  /** What a person may do with a message; whoever only reads gives none. */
  interface Actions {
    resend?: ((question: Question, text: string, attached: Attached[]) => void) | null;
    regenerate?: ((answer: Answer) => void) | null;
    branch?: ((answer: Answer) => void) | null;
    respond?: ((answer: Answer, results: Result[]) => void) | null;
    versions?: () => HTMLElement[];
    asked?: (answer: Answer) => Told[];
    results?: (answer: Answer) => Result[];
    hint?: (key: LackKey, answer: Answer) => HTMLElement | "";
  }

  /** A column of a comparison, or a round of a set of prompts. */
  interface Column {
    title: string;
    conversation: Pick<Conversation, "messages">;
  }

  /** A column whose conversation can be kept, too. */
  interface Settled {
    title: string;
    conversation: Conversation;
  }

  /** What the store says when it has tried to keep a conversation. */
  type Outcome =
    | { status: "kept"; updated?: number; message?: undefined }
    | { status: "changed"; message?: undefined; updated?: undefined }
    | { status: "away" | "refused"; message: string; updated?: undefined };
}
