// @ts-check
// What every page does beyond its HTML; each part is a module of its own.
import "./announce.js";
import "./connection.js";
import "./copy.js";
import "./dialog.js";
import "../people/keys.js";
import "./search.js";
import "./stale.js";
import "./time.js";
import "./title.js";
import "./trouble.js";
