// Formatting of values, as on the command line.

// Values that are not finite are strings: "NaN", "inf".
export function number(value) {
  if (value == null) return "–";
  if (typeof value === "string") return value;
  const size = Math.abs(value);
  if (size > 0 && size < 1e-3) return value.toExponential(2);
  if (size >= 1e6) return value.toExponential(2);
  return size >= 100 ? value.toFixed(1) : value.toFixed(4);
}

export function fixed(value, digits) {
  return typeof value === "number" ? value.toFixed(digits) : number(value);
}

export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

export function duration(seconds) {
  if (typeof seconds !== "number") return number(seconds);
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value) => String(value).padStart(2, "0");
  if (whole < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} m`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function ago(time) {
  return time == null ? "" : `${duration(Date.now() / 1000 - time)} ago`;
}

export function until(time) {
  return time == null ? "–" : `in ${duration(time - Date.now() / 1000)}`;
}

export function clock(time) {
  return new Date(time * 1000).toLocaleTimeString([], { hour12: false });
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return unit ? `${count.toFixed(1)} ${units[unit]}` : `${count} B`;
}
