// The list of an image's flags and variables (servers/views/profiles/profile_form.py), and what the form makes of it.

declare namespace Flags {
  interface Flag {
    names: string[];
    off?: string[];
    takes?: "none" | "optional" | "one" | "many";
    type?: string;
    choices?: string[];
    known?: string[];
    default?: string;
    help?: string;
    env?: string;
    deprecated?: boolean;
  }

  interface List {
    engine: string;
    version: string;
    title: string;
    flags: Flag[];
    /** null: nobody can tell which variables it reads. */
    env: string[] | null;
    env_prefixes: string[];
    /** What took the place of an earlier name, or null. */
    removed: Record<string, string | null>;
    is_exact: boolean;
    asked: "" | "answered" | "failed";
    written: string[];
    /** What other versions say of flags of which only the name is known. */
    lent: Record<string, Flag & { version: string }>;
    lent_env?: { version: string; names: string[] } | null;
  }

  interface Span {
    start: number;
    end: number;
  }

  interface Word extends Span {
    text: string;
  }

  /** A flag or variable in a text: `last` is where its values end. */
  interface Typed extends Span {
    name: string;
    values: Word[];
    last: number;
  }

  interface Typing extends Span {
    part: "name" | "value";
    typed: string;
  }

  interface Item {
    text: string;
    hint: string;
  }

  interface Suggestion extends Span {
    part: "name" | "value";
    items: Item[];
    /** The item that Enter takes; -1: none. */
    active: number;
    more: number;
  }

  /** What the check says of a word. */
  interface Told {
    severity: "error" | "warning" | "info";
    says: string;
    /** A flag or variable as typed; "": what stands before the first flag. */
    word: string;
    /** Of those that are typed alike. */
    nth: number;
    /** The flag's, where they are what is wrong. */
    values: string[] | null;
    /** Which of them. */
    value: number;
    instead: string;
  }

  /** The same where it stands: `wrong` is what `instead` takes the place of. */
  interface Mark extends Told, Span {
    wrong: Span;
    line: number;
  }
}
