// What the library of TypeScript does not say, or says too little of.

interface Array<T> {
  /** What is left is not falsy. */
  filter(predicate: BooleanConstructor): Exclude<T, null | undefined | false | "" | 0>[];
}
