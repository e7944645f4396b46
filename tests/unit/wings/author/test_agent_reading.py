"""What source says of the variables that it reads and of the models that it names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from evalgate.discovery import dotenv
from evalgate.gate import doctor
from evalgate.model import AgentUse
from evalgate.wings.author import source as author_source, starter
from evalgate.wings.author.source import AgentSource

ROOT = Path(__file__).resolve().parents[4]


def read_module(text: str) -> AgentSource:
    use = AgentUse(driver="adk", options={"path": "agent.py"})
    return author_source.of_agent(use, {"agent.py": text}.get)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import os\nos.environ['A']", {"A"}),
        ("import os\nos.environ.get('A')\nos.getenv('B')", {"A", "B"}),
        ("import os\nos.environ.get('A', 'x')\nos.getenv('B', default='')", set()),
        ("import os\nos.getenv('A', None)", {"A"}),  # the same as no default
        ("import os\nos.environ.pop('A')\nos.environ.pop('B', None)", {"A", "B"}),
        ("import os\nos.getenv('A') or 'x'", set()),
        ("import os\nos.getenv('A') or os.getenv('B')", {"B"}),
        # every way to import it
        ("import os as o\no.environ['A']", {"A"}),
        ("from os import environ as e, getenv\ne['A']\ngetenv('B')", {"A", "B"}),
        ("def f():\n    from os import environ\n    return environ['A']", {"A"}),
        ("environ = {}\nenviron['A']\ngetenv('B')", set()),  # other objects of these names
        # names that are constants
        ("import os\nKEY = 'A'\nos.environ[KEY]", {"A"}),
        ("import os\nos.environ[f'{x}']\nos.environ[key]\nos.environ['not a name']", set()),
        # it asks first, or catches
        ("import os\nif 'A' in os.environ:\n    os.environ['A']", set()),
        ("import os\ntry:\n    os.environ['A']\nexcept KeyError:\n    pass", set()),
        ("import os\ntry:\n    os.environ['A']\nexcept (OSError, ValueError):\n    pass", {"A"}),
        # a script's part is not run by an import
        ("import os\nif __name__ == '__main__':\n    os.environ['A']", set()),
        ("import os\ndel os.environ['A']\nos.environ['B'] = '1'", set()),
        # pydantic-settings
        ("class S(BaseSettings):\n    a: str\n    b: str = 'x'", {"A"}),
        (
            "class S(ps.BaseSettings):\n    model_config = SettingsConfigDict(env_prefix='G_')\n    a: str",
            {"G_A"},
        ),
        (
            "class S(BaseSettings):\n    class Config:\n        env_prefix = 'g_'\n    a: str",
            {"G_A"},
        ),
        (
            "class S(BaseSettings):\n    a: str = Field(...)\n    b: str = Field(alias='KEY')\n    c: ClassVar[int]",
            {"A", "KEY"},
        ),
        # an empty text is no key
        (
            "class S(BaseSettings):\n    a_key: str = ''\n    b_key: str | None = None\n    c: str = ''",
            {"A_KEY", "B_KEY"},
        ),
        ("import os\nos.getenv('A_KEY', ''), os.getenv('B', '')", {"A_KEY"}),
        ("class S(BaseModel):\n    a: str", set()),
        ("this is no Python", set()),
    ],
)
def test_variables(source: str, expected: set[str]) -> None:
    assert read_module(source).needs == expected


def test_what_source_sets_itself() -> None:
    text = "import os\nos.environ['A'] = 'x'\nos.environ.setdefault('B', 'y')\nos.environ['C'] = f()\nos.environ[n] = 'z'"
    assert read_module(text).sets == {"A": "x", "B": "y", "C": ""}


@pytest.mark.parametrize(
    "source",
    [
        "os.environ['OPENAI_API_KEY'] = os.getenv('OPENAI_API_KEY')",
        "KEY = os.environ.get('OPENAI_API_KEY')\nos.environ['OPENAI_API_KEY'] = KEY",
        "if not os.environ.get('OPENAI_API_KEY'):\n    os.environ['OPENAI_API_KEY'] = getpass()",
        "if 'OPENAI_API_KEY' not in os.environ:\n    os.environ['OPENAI_API_KEY'] = getpass()",
    ],
)
def test_a_variable_that_source_only_passes_on_is_needed(source: str) -> None:
    module = read_module(f"import os\n{source}\nAgent(model='openai/gpt-4o')")
    assert starter.needed_by(module) == ["OPENAI_API_KEY"]


@pytest.mark.parametrize(
    ("source", "names", "keys"),
    [
        (
            "Agent(model='gemini-2.5-flash')",
            ["gemini-2.5-flash"],
            ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        ),
        (
            "MODEL = 'gemini-2.5-flash'\nAgent(model=MODEL)",
            ["gemini-2.5-flash"],
            ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        ),
        ("LiteLlm('openai/gpt-4o')", ["openai/gpt-4o"], ("OPENAI_API_KEY",)),
        # as Pydantic AI writes it
        ("Agent('x', model='openai:gpt-4o')", ["openai/gpt-4o"], ("OPENAI_API_KEY",)),
        ("Agent(model='google-vertex:gemini-2.5-pro')", ["vertex_ai/gemini-2.5-pro"], ()),
        (
            "import os\nos.getenv('MODEL', 'claude-sonnet-4-5')",
            ["claude-sonnet-4-5"],
            ("ANTHROPIC_API_KEY",),
        ),
        # takes none
        ("Agent(model=LiteLlm(model='ollama_chat/llama3'))", ["ollama_chat/llama3"], ()),
        ("Agent(name='openai/gpt-4o', model='my-own')", [], ()),
        ("'use gemini-2.5-flash for this'", [], ()),  # prose
    ],
)
def test_models(source: str, names: list[str], keys: tuple[str, ...]) -> None:
    found = read_module(source).models
    assert sorted(found) == names
    assert {doctor.keys_of(each) for each in found} in ({keys}, set())


@pytest.mark.parametrize(
    ("files", "options", "names"),
    [
        # the modules that the agent imports, and no others
        (
            {
                "app/agent.py": "from . import tools\nfrom .deep.er import x\nimport shared.config",
                "app/tools.py": "import os\nos.environ['TOOLS']",
                "app/deep/__init__.py": "import os\nos.environ['DEEP']",
                "app/deep/er.py": "import os\nos.environ['DEEPER']",
                "app/deploy.py": "import os\nos.environ['DEPLOY']",
                "shared/config.py": "import os\nos.environ['SHARED']\nfrom app import agent",
            },
            {"path": "app"},
            ["DEEP", "DEEPER", "SHARED", "TOOLS"],
        ),
        (
            {
                "src/p/a.py": "import os\nos.environ['A']\nfrom p.b import c",
                "src/p/b.py": "import os\nos.environ['B']",
            },
            {"call": "p.a:run"},
            ["A", "B"],
        ),
        (
            {"a/bot.py": "import os\nos.environ['A']\nfrom ..... import x"},
            {"path": "a/bot.py"},
            ["A"],
        ),
        ({"agents/bot/agent.py": "import os\nos.environ['A']"}, {"path": "agents/bot"}, ["A"]),
        ({"app/root_agent.yaml": "model: gemini-2.5-flash"}, {"path": "app"}, []),
        ({}, {"path": "nowhere"}, []),
        ({}, {"command": "node agent.mjs"}, []),
    ],
)
def test_modules_are_followed(
    files: dict[str, str], options: dict[str, str], names: list[str]
) -> None:
    found = author_source.of_agent(AgentUse(driver="adk", options=options), files.get)
    assert sorted(found.needs) == names


def test_a_module_of_many_importers_is_read_once() -> None:
    names = [f"part_{number}" for number in range(9)]
    imports = "\n".join(f"import {name}, missing_{name}" for name in names)
    files = {f"app/{name}.py": imports for name in ("agent", *names)}
    reads: Counter[str] = Counter()

    def read(path: str) -> str | None:
        reads[path] += 1
        return files.get(path)

    author_source.of_agent(AgentUse(driver="adk", options={"path": "app"}), read)
    assert files.keys() <= reads.keys()
    assert set(reads.values()) == {1}


def test_the_nearest_files_with_variables_count() -> None:
    files = {
        "team/app/agent.py": "root_agent = Agent(model='gemini-2.5-flash')",
        "team/.env": "GOOGLE_GENAI_USE_VERTEXAI=1",
        ".env": "OTHER=1",
        ".env.example": "GOOGLE_CLOUD_PROJECT=your-project",
    }
    found = author_source.of_agent(AgentUse(driver="adk", options={"path": "team/app"}), files.get)
    assert found.samples == {"GOOGLE_CLOUD_PROJECT": "your-project"}
    assert found.uses_vertex
    del files["team/.env"]
    found = author_source.of_agent(AgentUse(driver="adk", options={"path": "team/app"}), files.get)
    assert (found.uses_vertex, found.values) == (False, {"OTHER": "1"})
    files[".env.example"] += "\nGOOGLE_GENAI_USE_VERTEXAI=1"
    assert author_source.of_agent(
        AgentUse(driver="adk", options={"path": "team/app"}), files.get
    ).uses_vertex
    source = {"agent.py": "import os\nos.environ.setdefault('GOOGLE_GENAI_USE_VERTEXAI', 'True')"}
    assert author_source.of_agent(
        AgentUse(driver="adk", options={"path": "."}), source.get
    ).uses_vertex
    assert "your-project" not in repr(found)


NEAR_PYTHON = st.lists(
    st.sampled_from([
        "import os", "from os import *", "os.environ[", "os.environ", "'A'", "]", "[", "(", ")", "=", "\n", "    ", ":",
        "class S(BaseSettings)", "a: str", "os.getenv(", "Agent(model=", "if", "try", "except", "or", "{", "}",
        "lambda", "f'{", "}'", "\\", "\0", "\ud800", "#", "from . import", "async def f()", "*", ",", "@", "match x",
    ])
).map(" ".join)  # fmt: skip


@given(st.one_of(st.text(), NEAR_PYTHON))
@example("-" * 20_000 + "1")
@example("(" * 5_000)
@example("x" + ".a" * 20_000)
@example("os.environ[" * 300 + "'A'" + "]" * 300)
def test_no_text_breaks_it(text: str) -> None:
    assert read_module(text) == read_module(text)
    assert all(isinstance(value, str) for value in dotenv.parse(text).values())


@settings(max_examples=20)
@given(
    st.sampled_from(sorted((ROOT / "evalgate").rglob("*.py"))), st.randoms(use_true_random=False)
)
def test_no_module_breaks_it(path: Path, random: object) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    random.shuffle(lines)  # type: ignore[attr-defined]
    read_module("\n".join(lines))
    read_module(path.read_text(encoding="utf-8"))
