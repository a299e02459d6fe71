// The points of a box's history (servers/views/memory/history.py), and how they are drawn.

declare namespace Past {
  type Values = (number | null)[];
  type Columns = Record<string, Values>;

  interface Engines {
    t: number[];
    width: number;
    servers: Record<string, Columns>;
  }

  interface Run {
    server: string;
    url: string;
    state: string;
    start: number;
    ready: number | null;
    end: number | null;
    phases: { words: string; at: number }[];
  }

  interface Alert {
    title: string;
    severity: string;
    url: string;
    start: number;
    end: number | null;
  }

  interface Reboot {
    at: number;
    words: string;
    url: string;
  }

  /** A mark in the lane of time. */
  interface Event {
    at: number;
    kind: string;
    words: string;
    url: string;
  }

  interface Found {
    from: number;
    to: number;
    now: number;
    width: number;
    /** Of the oldest record; null: there is none. */
    first: number | null;
    t: number[];
    columns: Columns;
    runs: Run[];
    alerts: Alert[];
    reboots: Reboot[];
    engines: Engines;
  }

  /** A part of who held the memory. */
  interface Layer {
    key: string;
    kind: string;
    name: string;
    isNamed: boolean;
    /** GiB. */
    values: Values;
    most: number;
    /** 0: its kind says its colour. */
    tone: number;
  }

  interface View extends Found {
    stack: Layer[];
    /** By the keys of layers. */
    colours: Map<string, string>;
  }

  /** What a readout says of one chart. */
  interface Reading {
    title: string;
    unit: string;
    times: number[];
    lines: { words: string; tone: number; values: Values }[];
  }

  /** Seconds. */
  type Range = [from: number, to: number];

  /** A line of a chart of what engines did. */
  interface Line {
    slug: string;
    words: string;
    values: Values;
    tone: number;
    dash: number[] | undefined;
  }
}
