// @ts-check
// The ready servers as a field of a form.

import { stateOf } from "./servers.js";

/** @import { Servers } from "./servers.js" */

/** @param {Servers} servers @param {HTMLSelectElement} select */
export function offerServers(servers, select) {
  const draw = () => {
    const ready = servers.all.filter((server) => server.isReady);
    const options = ready.map((server) => new Option(`${server.slug} · ${server.model}`, server.slug));
    const wanted = servers.find(servers.wanted);
    if (wanted && !wanted.isReady) options.unshift(new Option(`${wanted.slug} (${stateOf(wanted)})`, wanted.slug));
    if (!options.length) options.push(new Option("no server is ready", ""));
    select.replaceChildren(...options);
    select.value = wanted?.slug ?? "";
    select.disabled = options.length < 2 && !ready.length;
  };
  select.addEventListener("change", () => servers.prefer(select.value));
  servers.addEventListener("change", draw);
  draw();
}
