// Numbers and times as people read them.

const MINUTE = 60, HOUR = 3600, DAY = 86400;

/** Seconds since 1970 of a time that may be a number or RFC 3339. */
export function secondsOf(time) {
  if (typeof time === "number") return time;
  const parsed = Date.parse(time ?? "");
  return Number.isNaN(parsed) ? 0 : parsed / 1000;
}

export function ago(time, now = Date.now() / 1000) {
  const past = Math.max(0, now - secondsOf(time));
  if (past < 45) return "now";
  if (past < HOUR) return `${Math.max(1, Math.round(past / MINUTE))} min`;
  if (past < DAY) return `${Math.round(past / HOUR)} h`;
  if (past < 7 * DAY) return `${Math.round(past / DAY)} d`;
  return new Date(secondsOf(time) * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

export const clock = (time) => new Date(secondsOf(time) * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });

export const fullTime = (time) => new Date(secondsOf(time) * 1000).toLocaleString();

export function count(number) {
  if (number < 1000) return String(number);
  if (number < 1e6) return `${trimmed(number / 1000)}k`;
  return `${trimmed(number / 1e6)}M`;
}

const trimmed = (number) => number.toFixed(number < 10 ? 1 : 0).replace(/\.0$/, "");

export function dollars(cost) {
  if (cost == null) return "";
  return cost > 0 && cost < 0.01 ? "< $0.01" : `$${cost.toFixed(2)}`;
}

export function seconds(duration) {
  const time = typeof duration === "number" ? duration : (duration?.secs ?? 0) + (duration?.nanos ?? 0) / 1e9;
  if (time < 0.1) return "";
  if (time < 10) return `${time.toFixed(1)} s`;
  if (time < MINUTE) return `${Math.round(time)} s`;
  return `${Math.floor(time / MINUTE)} min ${Math.round(time % MINUTE)} s`;
}

/** "1 file", "3 files". */
export const many = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** The last parts of a path, which tell folders apart. */
export function shortPath(path, parts = 2) {
  const names = String(path ?? "").split("/").filter(Boolean);
  return names.length <= parts ? String(path ?? "") : `…/${names.slice(-parts).join("/")}`;
}
