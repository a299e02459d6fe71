// @ts-check

export const TITLES = "ABCD"; // of columns
