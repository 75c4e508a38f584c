"""What a person does on the pages of Prefect's two UIs."""

from dataclasses import dataclass

from playwright.sync_api import Locator, Page, Request, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.browser.chromium import SIZE

DEFAULT, FORMER = "/v2", ""
"""Where each UI is: the one that the server's address leads to, and the one before it."""
SETTLE_MILLISECONDS = 1_000
"""The form hands on what is typed a little later."""
TABS = "[role=tab], .p-tab"
"""The tabs of a run's page, in either UI."""
PRESSES, PRESS_MILLISECONDS = 6, 10_000
"""A form that is still at work on what was typed takes no notice of its button, and a server whose
database is locked refuses a run; a person presses again."""
TAKEN = "taken"


class NotSubmittedError(AssertionError):
    """A form could not be sent."""

    def __init__(self, answers: list[str], text: str) -> None:
        end = text[-2_000:]
        super().__init__(f"Submit was pressed in vain: {answers}; the page ends with:\n{end}")


def is_submission(request: Request) -> bool:
    """Whether a request asks for a run."""
    return request.url.endswith("/create_flow_run")


@dataclass(frozen=True)
class Visit:
    """A person at one of the UIs of a server."""

    page: Page
    server: str
    ui: str

    def go(self, path: str) -> None:
        """Open a page of the UI."""
        self.page.goto(f"{self.server}{self.ui}/{path}")

    def log_in(self, password: str) -> None:
        """Tell a server that asks who one is."""
        self.go("login")
        box = self.page.locator("input[type=password]")
        box.fill(password)
        self.page.locator("button[type=submit]").click()
        box.wait_for(state="detached")

    def open_form(self, deployment: object) -> None:
        """The run form of a deployment, with all of its fields."""
        self.go(f"deployments/deployment/{deployment}/run")
        expect(self.field("Output folder")).not_to_have_value("")
        self.settle()

    def picked(self) -> list[str]:
        """The buttons that are pressed, of the whole form."""
        return [
            each.strip() for each in self.page.locator("[aria-selected=true]").all_inner_texts()
        ]

    def out_of_sight(self) -> list[str]:
        """The buttons that pick a variant and stand beyond the window's right edge."""
        buttons = self.page.locator("button[aria-selected]")
        found: list[str] = buttons.evaluate_all(
            "all => all.filter(e => e.getBoundingClientRect().right > innerWidth)"
            ".map(e => e.innerText)"
        )
        return found

    def pick(self, name: str) -> None:
        """Press a button that picks a variant."""
        button = self.page.locator("button[aria-selected]", has_text=name)
        button.click()
        expect(button).to_have_attribute("aria-selected", "true")
        self.settle()

    def field(self, label: str) -> Locator:
        """The box below a label that begins so."""
        start = f"starts-with(normalize-space(.), '{label}')"
        box = "following::*[self::textarea or self::input][1]"
        return self.page.locator(f"xpath=//label[{start}]/{box}").first

    def fill(self, label: str, value: str) -> None:
        """Type into a field."""
        self.field(label).fill(value)
        self.settle()

    def submit(self) -> None:
        """Press Submit until the server has taken the run; the form gives way to another page.

        Raises:
            NotSubmittedError: it was pressed in vain.
        """
        answers: list[str] = []
        while answers[-1:] != [TAKEN]:
            if len(answers) == PRESSES:
                raise NotSubmittedError(answers, self.page.locator("body").inner_text())
            answers.append(self.press_submit())
        self.page.wait_for_url(lambda url: "/run" not in url, wait_until="commit")

    def press_submit(self) -> str:
        """Press Submit once, and say what came of it."""
        button = self.page.locator("button[type=submit]", has_text="Submit")
        try:
            with self.page.expect_request(is_submission, timeout=PRESS_MILLISECONDS) as sent:
                button.click()
        except PlaywrightTimeoutError:
            return "no request"
        answer = sent.value.response()
        if answer is None:
            return "no answer"
        return TAKEN if answer.ok else f"HTTP {answer.status}: {answer.text()}"

    def leave(self) -> None:
        """Close the page: one that shows a run at work draws all the time, without a GPU."""
        self.page.goto("about:blank")

    def open_run(self, run: object) -> None:
        """A run's page, with its timeline."""
        self.go(f"runs/flow-run/{run}")
        self.page.locator("canvas").first.wait_for()

    def open_tab(self, name: str) -> None:
        """A tab of a run's page."""
        self.page.locator(TABS, has_text=name).first.click()
        self.settle()
        # The former UI asks for the rest of a list when its end is in sight.
        self.page.set_viewport_size({"width": SIZE["width"], "height": 3 * SIZE["height"]})

    def open_artifact(self, artifact: object) -> None:
        """The page of an artifact."""
        self.go(f"artifacts/artifact/{artifact}")

    def see(self, text: str) -> None:
        """Find a text on the page, exactly so."""
        expect(self.page.get_by_text(text, exact=True).first).to_be_visible()

    def settle(self) -> None:
        """Give the page a moment."""
        self.page.wait_for_timeout(SETTLE_MILLISECONDS)
