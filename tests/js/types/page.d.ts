// What htmx tells the page.

interface HtmxRequest {
  ctx?: { response?: Response; text?: string };
}

interface DocumentEventMap {
  "htmx:after:request": CustomEvent<{ ctx: NonNullable<HtmxRequest["ctx"]> }>;
  "htmx:error": CustomEvent<HtmxRequest>;
  "htmx:ws:close": CustomEvent<{ code: number }>;
}

declare const htmx: {
  process(element: Element): void;
  ajax(verb: string, path: string, context: { swap: string }): Promise<void>;
};
