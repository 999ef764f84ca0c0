"""A habit: what both sides are given."""

from dataclasses import dataclass, field


@dataclass
class Case:
    """`config` and `tokenizer` change the model's files, `data`, `model` and `train` are sections of the job."""

    name: str
    task: str
    rows: list
    evaluated: list
    features: object
    fixture: str = ""
    collator: object = None
    config: dict = field(default_factory=dict)
    tokenizer: dict = field(default_factory=dict)
    tokenizer_file: object = None
    model: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)
    train: dict = field(default_factory=dict)
    arguments: dict = field(default_factory=dict)
    resources: dict = field(default_factory=dict)
    # Options that transformers needs and the job does not, such as `ignore_mismatched_sizes`.
    loading: dict = field(default_factory=dict)
    file: str = "jsonl"
    # Written in place of the rows, which the Trainer is given all the same.
    content: object = None
    # The weights of the fixture, though the config is changed.
    weights: str = ""
    evaluates_only: bool = False
    # Changes the finished model folder.
    finish: object = None
    # How `load_dataset` reads the rows file: the name of its reader, and its options.
    reader: tuple = ()
    # Words of the error with which traind refuses the case.
    refusal: str = ""
    # False where the Trainer fails too.
    trained: bool = True
    # The Trainer trains the model that traind begins with, whose head is drawn.
    is_drawn: bool = False

    def __post_init__(self):
        self.fixture = self.fixture or f"bert-{self.task}"


CASES = {}


def case(function):
    """Registers a function that returns a case without its name, or several by their names."""
    made = function()
    name = function.__name__.replace("_", "-")
    for more, one in ({"": made} if "task" in made else made).items():
        full = f"{name}-{more}" if more else name
        CASES[full] = Case(full, **one)
    return function
