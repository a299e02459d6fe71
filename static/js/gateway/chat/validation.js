// @ts-check
// Whether a value is what a JSON schema says: its draft 2020-12, as far as engines obey it.

import { escaped } from "./json.js";

const MOST = 50; // problems that are told
const DEPTH = 100; // a schema may refer to itself
const STEPS = 50_000; // and in more than one way at once

// What can be wrong in a schema without any value: it is told before it is sent.
/**
 * @typedef {boolean | Record<string, unknown>} Schema
 * @typedef {{path: string, says: string}} Problem
 */

/** True, or what is wrong with its value. @type {Record<string, (v: unknown) => true | string>} */
const KEYWORDS = {
  type: (v) => [v].flat().every((each) => typeof each === "string" && Object.hasOwn(TYPES, each)) || 'must be "object", "array", "string", "number", "integer", "boolean" or "null"',
  properties: (v) => isObject(v) || "must be an object",
  required: (v) => (Array.isArray(v) && v.every((each) => typeof each === "string")) || "must be a list of names",
  items: (v) => isSchema(v) || "must be a schema",
  enum: (v) => (Array.isArray(v) && v.length > 0) || "must be a list of values",
  anyOf: (v) => isList(v) || "must be a list of schemas",
  oneOf: (v) => isList(v) || "must be a list of schemas",
  allOf: (v) => isList(v) || "must be a list of schemas",
};
// A pattern is the schema's own programme, and may take for ever.
const UNCHECKED = ["pattern", "format", "patternProperties", "if", "contains", "dependentSchemas", "propertyNames"];

/** @type {Record<string, (v: unknown) => boolean>} */
const TYPES = {
  object: (v) => isObject(v),
  array: (v) => Array.isArray(v),
  string: (v) => typeof v === "string",
  number: (v) => typeof v === "number",
  integer: (v) => Number.isInteger(v),
  boolean: (v) => typeof v === "boolean",
  null: (v) => v === null,
};

/** @param {unknown} v @returns {v is Record<string, unknown>} */
const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
/** @param {unknown} v @returns {v is Schema} */
const isSchema = (v) => isObject(v) || typeof v === "boolean";
/** @param {unknown} v @returns {v is Schema[]} */
const isList = (v) => Array.isArray(v) && v.length > 0 && v.every(isSchema);

// The first thing that is wrong with a schema itself, as a sentence; "" when nothing is.
/** @param {unknown} schema @param {string} [path] @returns {string} */
export function schemaProblem(schema, path = "") {
  if (typeof schema === "boolean") return "";
  if (!isObject(schema)) return `${path || "The schema"} must be an object.`;
  for (const [name, check] of Object.entries(KEYWORDS)) {
    if (!Object.hasOwn(schema, name)) continue;
    const said = check(schema[name]);
    if (said !== true) return `${path}/${name} ${said}.`;
  }
  for (const [name, inside] of parts(schema)) {
    const said = schemaProblem(inside, `${path}/${name}`);
    if (said) return said;
  }
  return "";
}

/** @param {Record<string, unknown>} schema @returns {Generator<[name: string, inside: unknown]>} */
function* parts(schema) {
  for (const name of ["properties", "$defs", "definitions"]) {
    if (isObject(schema[name])) for (const [key, inside] of Object.entries(schema[name])) yield [`${name}/${key}`, inside];
  }
  for (const name of ["anyOf", "oneOf", "allOf", "prefixItems"]) {
    if (Array.isArray(schema[name])) for (const [at, inside] of schema[name].entries()) yield [`${name}/${at}`, inside];
  }
  for (const name of ["items", "additionalProperties", "not"]) if (isObject(schema[name])) yield [name, schema[name]];
}

// Keywords of a schema that are not looked at here.
/** @param {unknown} schema @returns {string[]} */
export function unchecked(schema) {
  if (!isObject(schema)) return [];
  const mine = UNCHECKED.filter((name) => Object.hasOwn(schema, name));
  return [...new Set([...mine, ...[...parts(schema)].flatMap(([, inside]) => unchecked(inside))])];
}

// [{path, says}]: where the value is not what the schema says; [] when it is.
/** @param {unknown} schema @param {unknown} value */
export function problems(schema, value) {
  /** @type {Problem[]} */
  const found = [];
  new Validation(schema, found).look(schema, value, "", 0);
  return found.slice(0, MOST);
}

class Validation {
  /** @param {unknown} root @param {Problem[]} found @param {{left: number}} [steps] */
  constructor(root, found, steps = { left: STEPS }) {
    this.root = root;
    this.found = found;
    this.steps = steps;
  }

  /** @param {string} path @param {string} says */
  say(path, says) {
    if (this.found.length < MOST) this.found.push({ path, says });
  }

  /** @param {unknown} schema @param {unknown} value @param {number} depth */
  passes(schema, value, depth) {
    /** @type {Problem[]} */
    const found = [];
    new Validation(this.root, found, this.steps).look(schema, value, "", depth);
    return found.length === 0;
  }

  /**
   * @param {unknown} schema
   * @param {unknown} value
   * @param {string} path
   * @param {number} depth
   * @returns {void}
   */
  look(schema, value, path, depth) {
    if (schema === false) return this.say(path, "nothing may stand here");
    if (!isObject(schema) || depth > DEPTH || --this.steps.left < 0) return;
    if (typeof schema.$ref === "string") this.look(this.referred(schema.$ref), value, path, depth + 1);
    const types = [schema.type ?? []].flat();
    if (types.length && !types.some((type) => typeof type === "string" && Object.hasOwn(TYPES, type) && TYPES[type]?.(value))) {
      return this.say(path, `must be ${types.map(named).join(" or ")}`);
    }
    if (Array.isArray(schema.enum) && !schema.enum.some((each) => same(each, value))) {
      this.say(path, `must be one of ${schema.enum.map((each) => JSON.stringify(each)).join(", ")}`);
    }
    if (Object.hasOwn(schema, "const") && !same(schema.const, value)) this.say(path, `must be ${JSON.stringify(schema.const)}`);
    this.bounds(schema, value, path);
    if (isObject(value)) this.object(schema, value, path, depth);
    if (Array.isArray(value)) this.list(schema, value, path, depth);
    this.combined(schema, value, path, depth);
  }

  /** @param {string} ref @returns {unknown} */
  referred(ref) {
    if (!ref.startsWith("#")) return true;
    const keys = ref.slice(1).split("/").filter(Boolean).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
    /** @type {unknown} */
    let inside = this.root;
    for (const key of keys) inside = isObject(inside) && Object.hasOwn(inside, key) ? inside[key] : undefined;
    return inside ?? true;
  }

  /** @param {Record<string, unknown>} schema @param {unknown} value @param {string} path */
  bounds(schema, value, path) {
    /**
     * @param {string} name
     * @param {number | undefined} number
     * @param {(number: number, limit: number) => boolean} isFine
     * @param {string} says
     */
    const limit = (name, number, isFine, says) => {
      const most = schema[name];
      if (typeof most === "number" && number !== undefined && !isFine(number, most)) this.say(path, `${says} ${most}`);
    };
    const number = typeof value === "number" ? value : undefined;
    limit("minimum", number, (a, b) => a >= b, "must be at least");
    limit("maximum", number, (a, b) => a <= b, "must be at most");
    limit("exclusiveMinimum", number, (a, b) => a > b, "must be above");
    limit("exclusiveMaximum", number, (a, b) => a < b, "must be below");
    limit("multipleOf", number, (a, b) => Math.abs(a / b - Math.round(a / b)) < 1e-9, "must be a multiple of");
    const length = typeof value === "string" ? [...value].length : undefined;
    limit("minLength", length, (a, b) => a >= b, "its length must be at least");
    limit("maxLength", length, (a, b) => a <= b, "its length must be at most");
    const size = Array.isArray(value) ? value.length : undefined;
    limit("minItems", size, (a, b) => a >= b, "its number of entries must be at least");
    limit("maxItems", size, (a, b) => a <= b, "its number of entries must be at most");
  }

  /**
   * @param {Record<string, unknown>} schema
   * @param {Record<string, unknown>} value
   * @param {string} path
   * @param {number} depth
   */
  object(schema, value, path, depth) {
    const known = isObject(schema.properties) ? schema.properties : {};
    for (const name of Array.isArray(schema.required) ? schema.required : []) {
      if (!Object.hasOwn(value, name)) this.say(path, `“${name}” is missing`);
    }
    for (const [name, each] of Object.entries(value)) {
      const place = `${path}/${escaped(name)}`;
      if (Object.hasOwn(known, name)) this.look(known[name], each, place, depth + 1);
      else if (schema.patternProperties) continue;
      else if (schema.additionalProperties === false) this.say(place, "is not in the schema");
      else this.look(schema.additionalProperties, each, place, depth + 1);
    }
  }

  /**
   * @param {Record<string, unknown>} schema
   * @param {unknown[]} value
   * @param {string} path
   * @param {number} depth
   */
  list(schema, value, path, depth) {
    const first = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
    for (const [at, each] of value.entries()) this.look(first[at] ?? schema.items, each, `${path}/${at}`, depth + 1);
    if (schema.uniqueItems && new Set(value.map((each) => JSON.stringify(each))).size < value.length) this.say(path, "has the same entry twice");
  }

  /**
   * @param {Record<string, unknown>} schema
   * @param {unknown} value
   * @param {string} path
   * @param {number} depth
   */
  combined(schema, value, path, depth) {
    for (const each of isList(schema.allOf) ? schema.allOf : []) this.look(each, value, path, depth + 1);
    /** @param {Schema[]} list */
    const fits = (list) => list.filter((each) => this.passes(each, value, depth + 1)).length;
    if (isList(schema.anyOf) && !fits(schema.anyOf)) this.say(path, "fits none of anyOf");
    if (isList(schema.oneOf) && fits(schema.oneOf) !== 1) this.say(path, "must fit exactly one of oneOf");
    if (isSchema(schema.not) && schema.not !== true && this.passes(schema.not, value, depth + 1)) this.say(path, "is what “not” forbids");
  }
}

/** @param {unknown} type */
const named = (type) => (/^[aeio]/.test(String(type)) ? `an ${type}` : type === "null" ? "null" : `a ${type}`);
/** @param {unknown} one @param {unknown} other */
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
