// Elements made of text alone, and an update in place that keeps focus, selections and open details.

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element; children are nodes or texts, null and undefined ones are left out. */
export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);

/** Make an SVG element. */
export const s = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

/** Make the children of `parent` like `children`; elements with the same data-key, or in the same place, stay. */
export function update(parent, ...children) {
  const wanted = children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(asNode);
  const byKey = new Map([...parent.children].filter((node) => node.dataset.key).map((node) => [node.dataset.key, node]));
  let cursor = parent.firstChild;
  for (const next of wanted) {
    const key = next.dataset?.key;
    const held = key ? byKey.get(key) : cursor;
    if (held && alike(held, next)) {
      if (held === cursor) cursor = cursor.nextSibling;
      else parent.insertBefore(held, cursor);
      sync(held, next);
    } else {
      parent.insertBefore(next, cursor);
    }
  }
  while (cursor) {
    const gone = cursor;
    cursor = cursor.nextSibling;
    gone.remove();
  }
}

const asNode = (child) => (child instanceof Node ? child : document.createTextNode(child));

const alike = (held, next) =>
  held.nodeType === next.nodeType && held.nodeName === next.nodeName && held.dataset?.key === next.dataset?.key;

function sync(held, next) {
  if (held.nodeType === Node.TEXT_NODE) {
    if (held.nodeValue !== next.nodeValue) held.nodeValue = next.nodeValue;
    return;
  }
  for (const { name } of [...held.attributes]) {
    // whether details are open is the reader's choice
    if (!next.hasAttribute(name) && name !== "open") held.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (held.getAttribute(name) !== value) held.setAttribute(name, value);
  }
  update(held, [...next.childNodes]);
}
