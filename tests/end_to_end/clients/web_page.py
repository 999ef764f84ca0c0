"""Drives the web page in headless Chromium through ChromeDriver.

Prints what it saw as a JSON object. Usage: web_page.py CHROMEDRIVER CHROMIUM LOGIN_URL JOBS SCREENSHOTS, where JOBS are
the ids of a running job, a waiting one, and three that have completed, of which the last continues the first.
"""

import base64
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

chromedriver, chromium, login_url, *jobs, screenshots = sys.argv[1:]
running, waiting, first, second, fork = jobs
PATIENCE = 120
DESKTOP = (1280, 900)
PHONE = (390, 844)
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
]


class Browser:
    """One session of WebDriver."""

    def __init__(self, profile):
        self.driver = subprocess.Popen([chromedriver, "--port=0"], stdout=subprocess.PIPE, text=True)
        port = self.read_port()
        self.base = f"http://127.0.0.1:{port}/session"
        options = {"binary": chromium, "args": [*OPTIONS, f"--user-data-dir={profile}"]}
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        session = self.call("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self.base += f"/{session['sessionId']}"

    def read_port(self):
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                return found[1]
        raise RuntimeError("ChromeDriver did not start")

    def call(self, method, path, body=None):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, what, script, *arguments):
        """Waits until the script returns a true value, and returns it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = self.run(script, *arguments)
            if value:
                return value
            time.sleep(0.1)
        raise RuntimeError(f"not seen: {what}\n{self.run('return document.body.innerText')}")

    def size(self, width, height):
        """Sets the size of the viewport."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        body = {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics}
        self.call("POST", "/goog/cdp/execute", body)

    def screenshot(self, name):
        Path(screenshots).mkdir(parents=True, exist_ok=True)
        (Path(screenshots) / f"{name}.png").write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def text(self, selector):
        script = "return [...document.querySelectorAll(arguments[0])].map((found) => found.innerText)"
        return self.run(script, selector)

    def errors(self):
        entries = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def end(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


def strangers(browser):
    browser.open(re.sub(r"#/login.*", "", login_url))
    browser.until("what to do", "return document.querySelector('main').innerText.includes('traind web')")
    browser.screenshot("strangers")
    return browser.text("main")[0]


def overview(browser):
    browser.open(login_url)
    browser.until("the running job's curve", "return document.querySelector('.spark polyline')")
    browser.until("a core's figures", "return document.querySelector('.core b')?.innerText.includes('%')")
    browser.screenshot("overview")
    return {
        "headings": browser.text("h2"),
        "cores": browser.text(".core"),
        "cards": browser.text(".job-card"),
        "rows": browser.text("tbody tr"),
    }


def job(browser, job_id):
    browser.run("location.hash = arguments[0]", f"#/jobs/{job_id}")
    browser.until("four curves", "return document.querySelectorAll('.chart .line').length >= 4")
    browser.until("the log", "return document.querySelector('.log').innerText.includes('grad_norm')")
    browser.until("the figures", "return document.querySelectorAll('.tile').length >= 7")
    browser.screenshot("job")
    return {
        "title": browser.text("h1"),
        "text": browser.text("main")[0],
        "tiles": browser.text(".tile"),
        "charts": browser.text(".chart h3"),
        "time": browser.text(".legend"),
        "log": browser.text(".log")[0][-2000:],
    }


def parsed(browser):
    """How many elements of hostile names are on the page, and whether one of them ran a script."""
    elements = "document.querySelectorAll('[onerror], [onload]').length"
    return browser.run(f"return [{elements}, Boolean(window.pwned)]")


def kept_focus(browser, job_id):
    """The text of the focused element after the page was updated."""
    browser.run("location.hash = arguments[0]", f"#/jobs/{job_id}")
    browser.until("the button", "return document.querySelector('button.danger')")
    browser.run("document.querySelector('button.danger').focus()")
    before = browser.text(".tile b")
    browser.until("other figures", "return document.querySelector('.tile:nth-child(3) b').innerText !== arguments[0]", before[2])
    return browser.run("return document.activeElement.innerText")


def broken_curve(browser):
    """The lines of a curve with values that are not finite."""
    script = """
        const { chart, sparkline } = await import("/assets/chart.js");
        const points = [[1, 3], [2, 2], [3, "NaN"], [4, "inf"], [5, 2], [6, 1]];
        const small = sparkline(points);
        const large = chart("none");
        large.update([{ name: "none", points: [[1, "NaN"], [2, "NaN"]] }]);
        const lines = [...small.querySelectorAll("polyline")].map((line) => line.getAttribute("points"));
        return { lines, none: large.root.textContent };
    """
    return browser.run(f"return (async () => {{ {script} }})()")


def completed(browser, job_id):
    browser.run("location.hash = arguments[0]", f"#/jobs/{job_id}")
    browser.until("the output", "return document.body.innerText.includes('Checkpoints and output')")
    browser.until("the state", "return document.querySelector('.state.completed')")
    browser.until("the log", "return document.querySelector('.log').innerText.includes('runner completed')")
    browser.screenshot("completed")
    return browser.text("main")[0]


def forked(browser, job_id):
    """The curves of a job and of the one that it continues, in one chart."""
    browser.run("location.hash = arguments[0]", f"#/jobs/{job_id}")
    legend = "document.querySelector('.chart .legend')"
    browser.until("the parent's curve", f"return {legend}?.innerText.includes('parent')")
    browser.screenshot("forked")
    curves = f"return [...{legend}.querySelectorAll('span')].map((name) => name.innerText)"
    return {"legend": browser.run(curves), "text": browser.text("main")[0]}


def compare(browser):
    """Chooses two jobs in the list and presses the button."""
    browser.run("location.hash = '#/'")
    for job_id in (first, second):
        chosen = "a[href='#/jobs/%s']" % job_id
        row = f"return document.querySelector(\"{chosen}\")?.closest('tr')?.querySelector('input')"
        browser.until("the job's row", row)
        browser.run(row.replace("return ", "") + ".click()")
    press = "const found = [...document.querySelectorAll('button')].find((one) => one.innerText === 'compare selected')"
    browser.until("the button", press + "; found?.click(); return found")
    browser.until("two curves", "return document.querySelectorAll('.tall .line').length === 2")
    browser.screenshot("compare")
    return {
        "hash": browser.run("return location.hash"),
        "differs": browser.text("tr.differs td:first-child"),
        "legend": browser.text(".tall .legend span"),
    }


def plan(browser, job_id):
    """Compares the meshes of a job on machines that are not here."""
    browser.run("location.hash = arguments[0]", f"#/plan/{job_id}")
    browser.until("the job's file", "return document.querySelector('textarea')?.value.includes('num_train_epochs')")
    script = """
        const [machine, hosts, cores, price] = document.querySelectorAll("select, input[type=number]");
        machine.value = [...machine.options].find((one) => one.text === "H100").value;
        [hosts.value, cores.value, price.value] = [1, 2, 50];
        document.querySelector("form button").click();
    """
    browser.run(script)
    browser.until("the meshes", "return document.querySelector('tbody tr')")
    browser.screenshot("plan")
    found = {"rows": browser.text("tbody tr"), "title": browser.text("h1"), "notes": browser.text("section p")}
    browser.run("document.querySelector('textarea').value = 'name: 1'; document.querySelector('form button').click()")
    browser.until("the refusal", "return document.querySelector('.note.bad')")
    return found | {"refused": browser.text(".note.bad")}


def phone(browser):
    browser.size(*PHONE)
    widths = {}
    for name, place, last_part in [
        ("overview", "#/", ".spark polyline"),
        ("job", f"#/jobs/{running}", ".chart .line"),
        ("waiting", f"#/jobs/{waiting}", "button.danger"),
        ("compare", f"#/compare/{first},{second}", ".tall .line"),
        ("plan", f"#/plan/{first}", "textarea"),
    ]:
        browser.run("location.hash = arguments[0]", place)
        browser.until("the page", "return document.querySelector(arguments[0])", last_part)
        browser.screenshot(f"phone-{name}")
        widths[name] = browser.run("return document.documentElement.scrollWidth")
    browser.size(*DESKTOP)
    return widths


def cancel(browser):
    browser.run("location.hash = arguments[0]", f"#/jobs/{running}")
    browser.until("the button", "return document.querySelector('button.danger')")
    browser.run("window.confirm = () => true; document.querySelector('button.danger').click()")
    browser.until("the end", "return document.querySelector('.state.cancelled')")
    return browser.text(".state")


with tempfile.TemporaryDirectory() as profile:
    browser = Browser(profile)
    try:
        browser.size(*DESKTOP)
        saw = {"strangers": strangers(browser)}
        # The refusal without a session is an error on the console.
        browser.errors()
        saw["overview"] = overview(browser)
        saw["parsed"] = {"overview": parsed(browser)}
        saw["job"] = job(browser, running)
        saw["parsed"]["job"] = parsed(browser)
        saw["focus"] = kept_focus(browser, running)
        saw["broken"] = broken_curve(browser)
        saw["completed"] = completed(browser, first)
        saw["parsed"]["completed"] = parsed(browser)
        saw["forked"] = forked(browser, fork)
        saw["compare"] = compare(browser)
        saw["errors"] = browser.errors()
        saw["plan"] = plan(browser, first)
        # The refusal of the job file is an error on the console.
        browser.errors()
        saw["phone"] = phone(browser)
        saw["cancelled"] = cancel(browser)
        saw["errors"] += browser.errors()
        print(json.dumps(saw))
    finally:
        browser.end()
