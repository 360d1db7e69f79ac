"""What a provider refuses is asked for in another form, once per schema and place."""

from understudy.models.wires.encoding import KEPT, form_for, gives_way, in_words

COMPLAINT = "response_format is not supported"


def test_each_refusal_leads_to_the_next_form_and_the_last_one_stays() -> None:
    schema = {"title": "forms"}
    assert form_for("here", schema) == "strict"
    assert gives_way("here", schema, 400, COMPLAINT)
    assert form_for("here", schema) == "lenient"
    assert gives_way("here", schema, 422, COMPLAINT)
    assert form_for("here", schema) == "words"
    assert not gives_way("here", schema, 400, COMPLAINT)
    assert form_for("there", schema) == "strict"
    assert form_for("here", {"title": "another"}) == "strict"


def test_other_refusals_are_about_something_else() -> None:
    schema = {"title": "others"}
    assert not gives_way("here", schema, 401, COMPLAINT)
    assert not gives_way("here", schema, 400, "too many tokens")
    assert not gives_way("here", None, 400, COMPLAINT)
    assert form_for("here", schema) == "strict"


def test_only_so_many_refusals_are_remembered() -> None:
    first = {"title": "first"}
    gives_way("here", first, 400, COMPLAINT)
    for number in range(KEPT):
        gives_way("here", {"title": number}, 400, COMPLAINT)
    assert form_for("here", first) == "strict"


def test_words_hold_the_schema_whole() -> None:
    assert in_words({"type": "array"}).endswith('{"type":"array"}')
