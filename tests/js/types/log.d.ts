// What goes over the socket of a run's log (servers/consumers/log.py), and how the page holds it.

declare namespace Log {
  /** When, which stream, what. */
  type Raw = [at: string, stream: string, text: string];
  type Picked = [number: number, at: string, stream: string, text: string];
  /** The first and the last number of the lines that were cut out; the first stands for all. */
  type Gap = [first: number, last: number];

  interface Query {
    text: string;
    regex: boolean;
    case: boolean;
    level: string;
    /** And no worse than this one. */
    worst: string;
    rank: string;
  }

  type Wish =
    | { tail: number }
    | { after: number }
    | Window
    | { find: Query | null; id: number; near?: number; after?: number }
    | { pick: number[] }
    | { outline: true };

  interface Window {
    from?: number;
    before?: number;
    limit: number;
  }

  /** Where lines are missing in the view, as positions. */
  interface Where {
    near?: number;
    from?: number;
    before?: number;
  }

  interface Hello {
    lines: number;
    complete: boolean;
    gap: Gap | null;
    empty: string; // what is to be said while there is no line
  }

  interface Found {
    id: number;
    numbers: number[];
    total: number;
    looked: number;
    upto: number;
    done?: boolean;
    error?: string;
  }

  type Figures = { [name in FigureName]?: (number | null)[] } & {
    tokens?: string;
    t?: number[];
    line?: number[];
  };

  type FigureName = "generation" | "prompt" | "running" | "queued" | "kv";

  type Place = [number: number, words: string];

  interface Outline {
    errors: number[];
    warnings: number[];
    ranks: string[];
    harmless: [why: string, numbers: number[]][];
    figures: Figures;
    phases: Place[];
    evidence: Place[];
  }

  type Pushed = [first: number, lines: Raw[]];

  /** What the server says, but for pushed lines: one of these. */
  interface Told {
    hello?: Hello;
    gap?: Gap;
    anew?: true;
    complete?: number;
    empty?: string; // with complete
    window?: Pushed;
    picked?: Picked[];
    outline?: Outline;
    found?: Found;
  }

  /** A progress bar, as one line shows it. */
  interface Bar {
    key: string;
    done: number;
    hasTotal: boolean;
  }

  interface Line {
    number: number;
    at: string;
    stream: string;
    text: string;
    row?: Row;
    /** false: looked at, and none. */
    bar?: Bar | false;
    periodic?: { key: string } | false;
    /** Shown to its end, however long it is. */
    isWhole?: boolean;
    /** With the reason why it is harmless. */
    isExplained?: boolean;
  }

  interface Row {
    /** The newest of its lines, which it shows. */
    line: Line;
    first: number;
    refreshes: number;
    index: number;
    /** px; undefined: not measured. */
    height?: number;
  }

  /** 0 to 15, or a colour of CSS. */
  type Colour = number | string;

  interface Style {
    color?: Colour;
    background?: Colour;
    bold?: boolean;
    dim?: boolean;
    italic?: boolean;
    underline?: boolean;
    strike?: boolean;
    inverse?: boolean;
  }

  interface Run {
    text: string;
    style: Style;
    isFound?: boolean;
    part?: Part;
  }

  /** Of what stands before an engine's words: level and time, which have columns, and where it is from. */
  type Part = "own" | "aside";

  interface Prefix {
    /** As the line names it; "": not at all. */
    level: string;
    parts: [from: number, to: number, part: Part][];
  }

  type Kind = "evidence" | "phase" | "error" | "warning" | "harmless";

  interface Note {
    kind: Kind;
    mark: string;
    words: string;
  }

  /** Where in a line the searched text begins and ends, by turns. */
  type Marker = (number: number, shown: string) => number[];
}
