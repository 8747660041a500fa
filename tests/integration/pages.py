"""Opens the pages that dp_bench writes in headless Chromium: no message on the console, nothing fetched
from elsewhere, every image drawn, every video decoded, no sideways scrolling on a phone.

    pages.py <dp_bench program> <configs folder>

Needs chromium and chromedriver (Debian: packages chromium and chromium-driver); ends with 77, which
ctest shows as skipped, where they are missing.
"""

import base64
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

PHONE = (390, 844)
DESKTOP = (1280, 900)
LOOK = """
const done = arguments[arguments.length - 1];
const videos = [...document.querySelectorAll('video')];
Promise.all(videos.map(video => {
  video.muted = true;
  return video.play().then(() => video.videoWidth > 0 && !video.error, why => String(why));
})).then(played => done({
  played: played,
  images: [...document.images].map(image => image.complete && image.naturalWidth > 0),
  fetched: performance.getEntriesByType('resource').map(entry => entry.name)
    .filter(name => !name.startsWith('file:') && !name.startsWith('data:')),
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  text: document.body.innerText.length,
}));
"""


def fail(message):
    sys.exit(f"FAILED: {message}")


class Browser:
    """One session of chromedriver (W3C WebDriver)."""

    def __init__(self, profile):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                port = int(line.rsplit("port", 1)[1].strip(" .\n"))
                break
        else:
            fail("chromedriver did not start")
        self.url = f"http://127.0.0.1:{port}/session"
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--autoplay-policy=no-user-gesture-required", f"--user-data-dir={profile}"]
        wanted = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self.call("", {"capabilities": {"alwaysMatch": wanted}})
        self.url += "/" + session["sessionId"]
        self.call("/timeouts", {"script": 60000})

    def call(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def look(self, page, size):
        self.call("/window/rect", {"width": size[0], "height": size[1]})
        self.call("/url", {"url": page.resolve().as_uri()})
        found = self.call("/execute/async", {"script": LOOK, "args": []})
        found["console"] = [entry["message"] for entry in self.call("/se/log", {"type": "browser"})]
        return found

    def screenshot(self, file):
        with urllib.request.urlopen(self.url + "/screenshot") as answer:
            file.write_bytes(base64.b64decode(json.load(answer)["value"]))

    def close(self):
        self.driver.terminate()
        self.driver.wait()


def check(browser, page, n_videos):
    for size in (DESKTOP, PHONE):
        found = browser.look(page, size)
        name = f"{page.name} at {size[0]} px"
        if found["console"]:
            fail(f"{name}: messages on the console: {found['console']}")
        if found["fetched"]:
            fail(f"{name}: fetched {found['fetched']}")
        if found["played"] != [True] * n_videos:
            fail(f"{name}: wanted {n_videos} videos that play, found {found['played']}")
        if not all(found["images"]):
            fail(f"{name}: {found['images'].count(False)} images are not drawn")
        if found["overflow"] > 0:
            fail(f"{name}: {found['overflow']} px wider than the window")
        if found["text"] < 200:
            fail(f"{name}: {found['text']} characters of text")
        browser.screenshot(page.with_name(f"{page.stem}_{size[0]}.png"))
    print(f"{page.name}: {n_videos} videos play, nothing fetched, no message")


def run(*command, exit_code=0):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != exit_code:
        fail(f"{' '.join(command)} ended with {result.returncode}: {result.stdout}{result.stderr}")


def main():
    dp_bench, configs = sys.argv[1], sys.argv[2]
    keep = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        print("SKIPPED: chromium and chromedriver are not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        work = keep or pathlib.Path(folder)
        task = ["--policy", "unet_hybrid", "--env", "point_mass", "--config-dir", configs,
                "policy.params.down_dims=[16,32]", "policy.params.n_groups=4", "collect.n_episodes=10",
                "training.num_epochs=3", "training.rollout_every=1", "dataloader.batch_size=32",
                "env_runner.n_train=1", "env_runner.n_test=4", "env_runner.n_videos=2"]
        for name in ("first", "second"):
            run(dp_bench, "run", *task, f"training.seed={len(name)}", "--output", str(work / name))
        run(dp_bench, "compare", str(work / "first"), str(work / "second"), "--html",
            str(work / "compare.html"))
        demonstrations = str(work / "data.zarr")
        run(dp_bench, "collect", "--env", "point_mass", "--config-dir", configs, "collect.n_episodes=10",
            "env.params.image_size=32", "--output", demonstrations)
        run(dp_bench, "inspect", "--dataset", demonstrations, "--html", str(work / "data.html"))
        browser = Browser(pathlib.Path(folder) / "profile")
        try:
            check(browser, work / "first" / "report.html", n_videos=3)
            check(browser, work / "data.html", n_videos=0)
            check(browser, work / "compare.html", n_videos=count_videos(work / "compare.html"))
        finally:
            browser.close()


def count_videos(page):
    return page.read_text().count("<video")


if __name__ == "__main__":
    main()
