"""Full stops that end an abbreviation, an initial, an ordinal or an item's number, and no sentence.

A chunk is cut before its language is known, and a chat mixes languages, so the abbreviations of all languages count
together. Where the same letters are a word of another language, the list that says less about them is theirs.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import regex

from backstory.text.stemmers import find_stemmer, list_stop_words

_NEVER_LAST: Final = {
    "en": "e.g|eg|i.e|ie|dr|mr|mrs|ms|messrs|prof|viz|vs|cf|esp|incl|resp",
    "de": (
        "z.b|zb|d.h|u.u|i.d.r|s.o|s.u|o.g|m.e|u.z|v.a|z.t|frl|dipl|bzw|vgl|inkl|exkl|evtl|ggf|sog|bspw|insb|insbes|"
        "zzgl|abzgl|einschl|geb"
    ),
    "fr": "p.ex|c.-à-d|c.à.d|mme|mlle|env",
    "es": "p.ej|sra|srta|sres|d.ª|dña|dra|uds|vds|profa|avda|pza|gral|aprox",
    "it": "p.es|ad es|sig.ra|sigg|sig.na|dott|dott.ssa|prof.ssa|avv|c.so|p.za|cfr",
    "pt": "p.ex|por.ex|sra|srta|srs|dra|profa|exmo|exma|ilmo|ilma|aprox",
    "nl": "bijv|bv|d.w.z|o.a|m.a.w|m.b.t|t.o.v|i.p.v|i.v.m|a.h.w|n.a.v|z.g|zgn|dhr|mevr|mw|drs|incl|excl",
    "sv": "t.ex|bl.a|d.v.s|dvs|s.k|t.o.m|fr.o.m|p.g.a|pga|m.a.o|inkl|exkl|jfr",
    "da": "f.eks|fx|bl.a|d.v.s|dvs|s.k|t.o.m|p.g.a|pga|vedr|evt|inkl|ekskl|jf|hhv|m.h.t",
    "no": "f.eks|bl.a|d.v.s|dvs|s.k|t.o.m|p.g.a|pga|vedr|evt|inkl|ekskl|jfr|hhv",
    "fi": "esim|ts|t.s|ks|vrt|nk",
    "pl": "np|tzn|tzw|tj|m.in|wg|godz|ul|inż|mgr|hab|św|zob",
    "cs": "např|tj|tzn|tzv|mj|popř|příp|vč|cca|mudr|judr|nám",
    "hu": "pl|ún|vö|ifj|özv",
    "ro": "de.ex|d.ex|dl|cca|aprox",
    "tr": "örn|bkz|doç|yrd|yakl|krş",
    "ru": "т.е|т.н|т.к|т.о|напр|ул|пер|пл|ср|г-н|г-жа|проф|акад|гр|тов|св|прибл",
    "uk": "т.з|т.зв|напр|вул|просп|пров|див|пор|ім|бл",
    "el": "π.χ|δηλ|κ|κα|κος|βλ|λ.χ|δρ|καθ|αγ|οδ",
}
"""By language: abbreviations after which the sentence goes on, whatever comes next; parts are joined by full stops."""

_TITLES: Final = (
    "st ste mt gen lt sgt capt rev hon hr fr ing sr ud vd av bd me mgr mm lic sta sto sig arch geom spett gent eng gal "
    "ir sv sn mah cad fam"
)
"""Abbreviations that stand before a name, if they begin with a capital letter; in small letters most are words."""

_RARELY_LAST: Final = {
    "en": (
        "etc|approx|appr|a.m|p.m|a.k.a|al|inc|ltd|co|corp|jr|est|dept|ave|blvd|rd|min|max|sec|hrs|hr|tel|ext|vol|misc|"
        "u.s|u.k|n.b"
    ),
    "de": "usw|u.a|u.ä|o.ä|ca|str|std|stk|mio|mrd|tsd|jh|jhd|allg|urspr",
    "fr": "etc|apr|tél|éd",
    "es": "ee.uu|s.a|máx|mín|admón",
    "it": "ecc|s.p.a|s.r.l|a.c|d.c",
    "pt": "ltda|a.c|d.c",
    "nl": "enz|e.d|e.a|m.n|n.v.t|a.u.b|b.v|n.v",
    "sv": "osv|o.s.v|m.m|m.fl|kl|ev|st|d.y|d.ä|e.kr|f.kr",
    "da": "osv|o.s.v|m.m|m.v|m.fl|kl|tlf|stk",
    "no": "osv|o.s.v|m.m|m.v|m.fl|kl|tlf|stk",
    "fi": "jne|yms|ym|tms|klo|puh|kpl|eaa|ml|mm|ns",
    "pl": "itd|itp|tys|mln|mld|zł|n.e",
    "cs": "atd|apod|aj|tis|mil|hod",
    "hu": "stb|vki|vmi|kb|i.sz",
    "ro": "ș.a|ş.a|ș.a.m.d|î.hr|d.hr",
    "tr": "vb|vd|yy|m.ö|m.s",
    "ru": "т.д|т.п|др|пр|см|им|ок|гг|г|вв|в|н.э|руб|коп|тыс|млн|млрд|тел|мин|сек|ч|обл|р-н|д|кв|корп",
    "uk": "т.д|т.п|ін|рр|р|ст|грн|тис|хв|год|буд",
    "el": "κ.λπ|κλπ|κ.ά|κ.τ.λ|κτλ|μ.μ|π.μ|τηλ|χλμ|π.δ",
}
"""By language: abbreviations after which the sentence goes on with a small letter or a number."""

_BEFORE_NUMBER: Final = (
    "no nos nr nrs nº num núm fig figs p pp pg pag pág págs ch chap sec sect art arts abs abb s ss st vol vols bd bl "
    "kap kl § c n nn r str č čís sz szám l sy sf md rm apt ca "
    "jan feb febr apr jun jul aug sep sept oct okt nov dec dez déc "
    "с стр рис гл п пп разд табл т № кн вып ст тел д кв σ σελ κεφ αρ εικ"
)
"""Abbreviations after which a number belongs to the sentence."""

_COUNTED: Final = (
    "januar jänner februar feber märz april mai juni juli august september oktober november dezember jahrhundert "
    "klasse stock tag mal platz januari februari mars maj augusti december február március április május június július "
    "augusztus október"
)
"""Words that may follow an ordinal with a full stop in spite of a capital letter, such as "3. Mai"."""

_WORDS_BEFORE: Final = regex.compile(
    r"(?<![\p{L}\p{M}\p{N}])(?:ad )?(?:[\p{L}\p{M}ªº\-]{1,6}\.[ \u00a0\u202f]?){0,4}[\p{L}\p{M}ªº§№\-]{1,8}\Z"
)
_ORDINAL: Final = regex.compile(r"(?<![\p{L}\p{N}.,:])\p{Nd}{1,2}\Z")
_ITEM_NUMBER: Final = regex.compile(r"(?:\A|\n)[ \t>]*\p{Nd}{1,9}\Z")
_PART_AFTER: Final = regex.compile(r"([\p{L}\p{M}ªº\-]{1,6})\.")
_WORD_AFTER: Final = regex.compile(r"[\p{L}\p{M}'’]+")
_SPACES: Final = regex.compile(r"[ \u00a0\u202f]")
_OPENING: Final = "\"'“”‘’„«»([*_"
_LONGEST_PART: Final = 7
"""Letters of the longest part of an abbreviation."""
_LONGEST: Final = 48
"""Characters before a full stop that can belong to an abbreviation."""


class _Lists(NamedTuple):
    """The lists of all languages in small letters.

    Attributes:
        never_last: Abbreviations that end no sentence.
        rarely_last: Abbreviations that end no sentence before a small letter or a number.
        beginnings: The first parts of both.
        parts: The parts of all abbreviations.
        titles: Abbreviations before names.
        before_number: Abbreviations before numbers.
        counted: Words after ordinals.
        function_words: Words that hardly begin a name.
    """

    never_last: frozenset[str]
    rarely_last: frozenset[str]
    beginnings: frozenset[str]
    parts: frozenset[str]
    titles: frozenset[str]
    before_number: frozenset[str]
    counted: frozenset[str]
    function_words: frozenset[str]


def goes_on(text: str, stop: int, after: int) -> bool:
    """Return whether a sentence goes on after a full stop, an ellipsis, or a quotation that ends with a mark.

    ``stop``: offset after the marks at the end of a word; only spaces lie between it and ``after``.
    """
    mark = text[stop - 1]
    if mark in "!?":
        return False  # many chats have no capital letters
    if mark == "." and _is_whole_word(text[max(stop - _LONGEST_PART - 2, 0) : stop - 1]):
        return False
    following = text[after : after + 3].lstrip(_OPENING)[:1]
    if mark != "." or text[stop - 2 : stop] == "..":
        return following.islower()  # as in: “No way!” said Ann
    before = text[max(stop - _LONGEST, 0) : stop - 1]
    words = _WORDS_BEFORE.search(before)
    if words is not None:
        return _abbreviates(words[0], following, text, after)
    if _ITEM_NUMBER.search(before):
        return True
    is_ordinal = following.islower() or _read_word(text, after) in _read_lists().counted
    return is_ordinal and _ORDINAL.search(before) is not None


def _is_whole_word(before: str) -> bool:
    """Return at small cost whether the letters before a full stop are certainly no abbreviation, as most are."""
    *_, word = before.split() or [""]
    return len(word) > 1 and word.isalpha() and word.casefold() not in _read_lists().parts


def _abbreviates(words: str, following: str, text: str, after: int) -> bool:
    """Return whether the words before a full stop are an abbreviation with which the sentence goes on."""
    written = _SPACES.sub("", words).split(".")
    parts = [part.casefold() for part in written]
    names = {".".join(parts[place:]) for place in range(len(parts))}
    lists = _read_lists()
    if not names.isdisjoint(lists.never_last):
        return True
    if written[-1][0].isupper() and parts[-1] in lists.titles:
        return following.isupper() and not _begins_a_sentence(text, after)
    rest = _PART_AFTER.match(text, after)
    if rest and not lists.beginnings.isdisjoint(f"{name}.{rest[1].casefold()}" for name in names):
        return True
    if following.isdecimal() and parts[-1] in lists.before_number:
        return True
    if not names.isdisjoint(lists.rarely_last):
        return following.islower() or following.isdecimal()
    initials = [part for part in written if len(part) == 1]
    if initials == written and len(written) > 1 and (following.islower() or following.isdecimal()):
        return True
    is_initial = len(written[-1]) == 1 and written[-1].isupper() and written != ["I"]
    return is_initial and following.isupper() and not _begins_a_sentence(text, after)


def _begins_a_sentence(text: str, after: int) -> bool:
    """Return whether the next word is one that hardly begins a name, such as "The"."""
    return _read_word(text, after) in _read_lists().function_words


def _read_word(text: str, after: int) -> str:
    word = _WORD_AFTER.match(text, after)
    return word[0].casefold() if word else ""


@cache
def _read_lists() -> _Lists:
    never, rarely = (
        frozenset(_SPACES.sub("", name) for names in by_language.values() for name in names.split("|"))
        for by_language in (_NEVER_LAST, _RARELY_LAST)
    )
    split = [name.split(".") for name in never | rarely]
    beginnings = (".".join(parts[:count]) for parts in split for count in range(2, len(parts) + 1))
    # The first part of an abbreviation that is written with spaces stands alone before its full stop, too.
    parts = {part for parts in split for part in parts}
    titles, before_number = _TITLES.split(), _BEFORE_NUMBER.split()
    stop_words = (list_stop_words(find_stemmer(language)) for language in _NEVER_LAST)
    return _Lists(
        never_last=never,
        rarely_last=rarely,
        beginnings=frozenset(beginnings),
        parts=frozenset({*parts, *titles, *before_number}),
        titles=frozenset(titles),
        before_number=frozenset(before_number),
        counted=frozenset(_COUNTED.split()),
        function_words=frozenset[str]().union(*stop_words),
    )
