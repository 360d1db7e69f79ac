"""Places as a conversation began with them, kept in its log."""

import os
from pathlib import Path

import msgspec

from understudy.places.places import pin_places
from understudy.places.resolving import resolve_places
from understudy.protocol.records import Opened, Overrides, Pins, UserMessage


def stored(pins: Pins) -> Pins:
    return msgspec.json.decode(msgspec.json.encode(pins), type=Pins)


def test_pins_from_the_log_hold_what_stood_there_and_nothing_else(tmp_path: Path) -> None:
    work, root = tmp_path / "work", tmp_path / "root"
    work.mkdir()
    root.mkdir()
    pins = stored(pin_places(str(work), [str(root)]).pins())
    again = pin_places(str(work), [str(root)], known=pins)
    assert (again.pins(), again.complaint()) == (pins, None)
    root.rename(tmp_path / "moved")
    assert pin_places(str(work), [str(root)], known=pins).complaint() is None  # what is missing does no harm
    root.mkdir()
    complaint = pin_places(str(work), [str(root)], known=pins).complaint()
    assert complaint is not None
    assert complaint.startswith(f"{root} is not what stood there")


def test_a_machine_that_was_started_anew_may_number_its_devices_otherwise(tmp_path: Path) -> None:
    pins = pin_places(str(tmp_path), []).pins()
    earlier = Pins("an earlier start", tuple(msgspec.structs.replace(pin, device=pin.device + 1) for pin in pins.places))
    again = pin_places(str(tmp_path), [], known=earlier)
    assert (again.complaint(), again.pins()) == (None, pins)
    this_one = Pins(pins.boot, earlier.places)
    assert pin_places(str(tmp_path), [], known=this_one).complaint() is not None


def test_roots_that_the_configuration_has_got_since_are_pinned_beside_the_others(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    pins = pin_places(str(tmp_path), []).pins()
    more = pin_places(str(tmp_path), [str(tmp_path / "new")], known=pins).pins()
    assert [pin.spelled for pin in more.places] == [str(tmp_path), str(tmp_path / "new")]
    assert more.places[0] == pins.places[0]


def test_a_link_inside_another_root_that_leads_out_of_it_is_not_followed(tmp_path: Path) -> None:
    for name in ("ws/in", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ws" / "out").symlink_to("../outside")
    (tmp_path / "ws" / "stays").symlink_to("in")
    outer, out, stays = resolve_places([str(tmp_path / "ws"), str(tmp_path / "ws" / "out"), str(tmp_path / "ws" / "stays")])
    assert (out.path, out.inode) == (str(tmp_path / "ws" / "out"), 0)
    assert stays.path == str(tmp_path / "ws" / "in")
    assert outer.inode == os.stat(tmp_path / "ws").st_ino


def test_logs_from_before_there_were_pins_can_be_read(tmp_path: Path) -> None:
    opened = msgspec.json.decode(b'{"type":"opened","conversation_id":"c","model":"m","overrides":{},"provider":"p"}', type=Opened)
    assert opened == Opened("c", "m", Overrides(), "p")
    assert UserMessage.__struct_defaults__[-1] is None


def test_a_path_that_no_log_can_hold_is_pinned_for_this_process(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(odd)
    places = pin_places(odd, [])
    assert (places.complaint(), places.pins().places) == (None, ())
