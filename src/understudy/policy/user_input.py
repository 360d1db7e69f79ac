"""Words for the model's questions to the user, and which parts of an answer count. Pure functions."""

from collections.abc import Mapping, Sequence
from typing import Any

from understudy.protocol.records import PLAN_CALL, Answers, InputQuestion, UserInputAsked
from understudy.text import make_visible

MOST_OF_ANSWER = 10_000  # characters per answer
MOST_ANSWERS = 16  # per question


def input_text(asked: UserInputAsked) -> str:
    """The full text: each question with its options. The words are the model's."""
    return "\n\n".join("\n".join(_lines(question)) for question in asked.questions)


def input_title(asked: UserInputAsked) -> str:
    """On one line, for lists and titles."""
    first, *others = asked.questions
    more = f" (and {len(others)} more)" if others else ""
    return f"{one_line(first.question)}{more}"


def one_line(text: str) -> str:
    return make_visible(" ".join(text.split()))


def option_text(question: InputQuestion) -> list[str]:
    """The options, numbered from 1."""
    return [
        f"{number}. {one_line(option.label)}" + (f": {one_line(option.description)}" if option.description else "")
        for number, option in enumerate(question.options, 1)
    ]


def _lines(question: InputQuestion) -> list[str]:
    return [f"{one_line(question.header)}: {one_line(question.question)}", *(f"  {line}" for line in option_text(question))]


def own_words_fields(asked: UserInputAsked) -> dict[str, str]:
    """For forms: by the id of each question with options, the name of the field for an answer in one's own words."""
    if asked.call_id.startswith(PLAN_CALL):
        return {}  # it has a field for words already
    taken = {question.id for question in asked.questions}
    fields: dict[str, str] = {}
    for question in asked.questions:
        if question.options:
            name = f"{question.id}_other"
            while name in taken:
                name += "_"
            taken.add(name)
            fields[question.id] = name
    return fields


def with_own_words(asked: UserInputAsked, content: Mapping[str, Any]) -> dict[str, Any]:
    """A form's content with the own words among the answers of their question, behind the option that was chosen."""
    answers = dict(content)
    for question, field in own_words_fields(asked).items():
        words = answers.get(field)
        if isinstance(words, list | dict):
            continue  # it is refused, and not dropped
        answers.pop(field, None)
        if words is not None and str(words).strip():
            chosen = answers.get(question)
            answers[question] = [chosen, str(words)] if isinstance(chosen, str) else str(words)
    return answers


def own_words_field(question: InputQuestion) -> dict[str, str]:
    title = f"{one_line(question.header)}, in your own words"
    return {"type": "string", "title": title, "description": "Instead of an option, or beside it"}


def chosen_by(question: InputQuestion, typed: str) -> str:
    """What a person's input means: a number or a label is the option, anything else is their own words."""
    typed = typed.strip()
    if typed.isascii() and typed.isdigit() and len(typed) <= 2 and 1 <= int(typed) <= len(question.options):
        return question.options[int(typed) - 1].label
    labels = (option.label for option in question.options)
    return next((label for label in labels if label.casefold() == typed.casefold()), typed)


def read_answers(asked: UserInputAsked, given: Mapping[str, Sequence[str] | str]) -> Answers:
    """Drops empty answers. Raises `ValueError` with the reason if an answer has no question, or is too long."""
    known = {question.id for question in asked.questions}
    answers: Answers = {}
    for name, said in given.items():
        if name not in known:
            listed = ", ".join(f"`{make_visible(each)}`" for each in sorted(known))
            raise ValueError(f"nobody asked `{make_visible(name[:100])}`: the questions are {listed}")
        words = tuple(word.strip() for word in ((said,) if isinstance(said, str) else said) if word.strip())
        if len(words) > MOST_ANSWERS or any(len(word) > MOST_OF_ANSWER for word in words):
            raise ValueError(f"the answer to `{make_visible(name)}` is longer than {MOST_OF_ANSWER} characters")
        if words:
            answers[name] = words
    return answers


def answered_text(answers: Answers) -> str:
    """On one line, for viewers."""
    return "; ".join(f"{one_line(name)}: {', '.join(one_line(word) for word in words)}" for name, words in answers.items())
