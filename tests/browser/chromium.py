"""The distribution's Chromium, quiet on the network, and complaints of its pages collected."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    expect,
    sync_playwright,
)

from tests.browser import quiet_chromium

# What Playwright leaves out by itself: of two such lists on its command line Chromium takes ours alone.
PLAYWRIGHTS = (
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding",
    "ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect",
    "TcpPortRandomizationWin", "OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled",
    "PreconnectToSearch", "msForceBrowserSignIn", "msEdgeUpdateLaunchServicesPreferredVersion",
)  # fmt: skip
# The address bar's, which nobody sees: made ready for each context, they cost more than the pages.
POPUPS = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup")
FLAGS = [
    "--no-sandbox",
    # Debian asks for drawing by the GPU, which a program then stands in for where there is none.
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join((*PLAYWRIGHTS, *POPUPS))}",
]
PATIENCE = 90_000  # ms; only what fails takes so long

expect.set_options(timeout=PATIENCE)


@contextmanager
def chromium() -> Iterator[Browser]:
    """For programs; tests share the one of the fixture `browser`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=quiet_chromium.__file__, args=FLAGS)
        yield browser
        browser.close()


def new_page(context: BrowserContext, complaints: list[str]) -> Page:
    """A page whose script errors, policy violations and failed loads end up in `complaints`."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type == "error" else None,
    )
    return page
