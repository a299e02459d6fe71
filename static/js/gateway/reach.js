// @ts-check
// Where the address that lines name leads elsewhere than to whom this page asks, which no test by
// this browser can show. "" where it does not.

const OWN = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** @param {string} address @param {string} here */
export function reach(address, here) {
  const { origin, hostname } = new URL(address);
  if (origin !== here) {
    return `The lines say ${origin}, and this page is open at ${here}: a test asks the latter. Put it into the lines where the other is not reached.`;
  }
  if (OWN.test(hostname)) {
    return `${hostname} works only on this machine. Open this page by the box’s hostname to get examples to share.`;
  }
  return "";
}
