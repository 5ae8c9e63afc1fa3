"""Words that stand before a noun, by language: articles, possessives, and prepositions."""

from __future__ import annotations

from typing import Final

INTRODUCERS: Final = {
    "en": (
        "a an the my our your his her its their this these those some any no every each another of in on at "
        "by for from with without about into onto over under behind between near through"
    ),
    "de": (
        "der die das den dem des ein eine einen einem einer eines mein meine meinen unser unsere euer eure "
        "ihr ihre sein seine dieser diese dieses kein keine keinen jeder jede jedes im am zum zur vom beim "
        "ins in an auf mit von für ohne über unter vor nach bei aus zwischen"
    ),
    "nl": (
        "de het een mijn onze ons jouw jullie zijn haar hun deze dit die dat geen elke elk van in op aan bij "
        "voor met zonder over onder naar uit door tussen"
    ),
    "fr": (
        "le la les un une des du au aux mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs ce "
        "cet cette ces chaque de d l en dans sur sous avec sans pour par chez entre"
    ),
    "es": (
        "el la los las un una unos unas mi mis tu tus su sus nuestro nuestra nuestros nuestras este esta "
        "estos estas ese esa cada del al de en con sin para por sobre entre desde"
    ),
    "it": (
        "il lo la i gli le un uno una l mio mia miei mie tuo tua suo sua nostro nostra loro questo questa "
        "ogni del dello della dei degli delle nel nella sul sulla al alla dal dalla di in con senza per su "
        "tra"
    ),
    "pt": (
        "o a os as um uma uns umas meu minha meus minhas seu sua nosso nossa este esta esse essa cada do da "
        "dos das no na nos nas ao à de em com sem para por sobre entre"
    ),
    "sv": (
        "en ett den det de min mitt mina din ditt vår vårt våra hans hennes deras denna detta i på av med "
        "utan för om från till vid under över"
    ),
    "da": (
        "en et den det de min mit mine din dit vores hans hendes deres denne dette i på af med uden for om "
        "fra til ved under over"
    ),
    "no": (
        "en ei et den det de min mitt mine din ditt vår vårt våre hans hennes deres denne dette i på av med "
        "uten for om fra til ved under over"
    ),
}
"""By language, ISO 639-1. What follows one of them, up to the next function word, is a noun with what describes it."""

_HOLLOW: Final = (
    "one ones two three four five six seven eight nine ten first second third next last thing things lot "
    "lots bit way kind sort stuff everyone someone anyone something anything everything nothing yeah yes "
    "okay say says said tells told goes went comes came gets got looks looked wants wanted keeps kept makes made "
    "ding dinge sache sachen alles nichts etwas jemand chose choses truc rien tout cosa cosas algo "
    "todo nada cose niente tutto coisa coisas tudo dingen iets niets sak saker ting noget noe"
)

HOLLOW: Final = frozenset(_HOLLOW.split())
"""Words that stand where nouns stand, and name nothing."""


POINTERS: Final = {
    "en": (
        "it it's its this that that's these those he he's she she's they they're them him his her hers their there "
        "there's then so and or but because yes yeah no well also too either same such ok okay oh ah wow haha lol "
        "maybe probably exactly true both"
    ),
    "de": (
        "es das dies diese dieser dieses er sie ihn ihm ihr sein seine da dann so und oder aber weil ja nein doch auch "
        "also genau stimmt vielleicht dort davon dazu damit"
    ),
    "nl": (
        "het dit dat deze die hij zij ze hem haar hun er dan dus en of maar want ja nee ook precies misschien daar"
    ),
    "fr": (
        "il elle ils elles ça c'est ce cela ceci lui leur y en et ou mais car parce oui non si aussi alors donc là "
        "peut-être exactement"
    ),
    "es": (
        "él ella ellos ellas eso esto esa ese le les lo y o pero porque sí no también entonces así allí quizás exacto "
        "igual"
    ),
    "it": (
        "lui lei loro ciò questo quello questa quella ci e o ma perché sì no anche allora così lì forse esatto"
    ),
    "pt": "ele ela eles elas isso isto aquilo lhe e ou mas porque sim não também então assim lá talvez exato",
    "sv": "det den de han hon dem honom henne dess och eller men för ja nej också så då där kanske precis",
    "da": "det den de han hun dem ham hende dens og eller men for ja nej også så da der måske præcis",
    "no": "det den de han hun dem ham henne dens og eller men for ja nei også så da der kanskje akkurat",
}
"""By language: words by which a sentence points at what was said before, so that it says little by itself."""


def list_introducers(language: str | None) -> frozenset[str]:
    """List the words that stand before a noun, in small letters; none for a language without a list."""
    return frozenset(INTRODUCERS.get(language or "", "").split())


def list_pointers(language: str | None) -> frozenset[str]:
    """List the words that point at what was said before, in small letters; none for a language without a list."""
    return frozenset(POINTERS.get(language or "", "").split())
