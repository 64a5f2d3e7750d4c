"""The words and facts of the made-up world that the tiny Qwen3 of the tests learns."""

from __future__ import annotations

_WORDS = """
apple arm ash baby back bag ball band bank barn bat bay bean bear bed bee bell belt bike bird blue boat body bone book
boot bowl box boy brave bread brick bridge bright broom brown brush bus bush cake calm camp candle cap car card cat
cave chair chalk cheese chest child circle city clay clean clear clock cloud coast coat coin cold cook cool copper
corn cow crab cream crow crown cup dance dark day deep deer desk dish dog door dove dream dress drum dry duck dust
eagle early earth east easy egg empty evening eye face fair farm fast feather fence field fire fish flag flat floor
flower fly fog foot forest fork fox free fresh friend frog fruit full game garden gate gentle girl glad glass goat
gold good grain grape grass gray green ground hair hall hammer hand happy hat hay head heart heavy hen hill home honey
hook horn horse hot house ice ink iron island jacket jar juice jump key kind king kite knee ladder lake lamp large
late leaf lemon letter light lime lion list little long loud low map market meadow milk mill mint mirror moon morning
moss mountain mouse mouth music nail narrow nest net new night north nose nut oak ocean old olive onion open orange
owl page paint paper park path pear pen pepper piano pig pin pink plant plate pocket pond pool potato queen quick
quiet rabbit rain red rice rich ring river road rock roof room root rope rose round salt sand school sea seed sheep
shell ship shoe shop short silk silver simple sing sky sleep slow small smoke snow soap soft song soup south spoon
spring square star steel stone storm street strong sugar summer sun sweet swim table tail tall tea tent thin thread
tiger tired tower town train tree truck turtle valley village violet voice wagon walk wall warm water wave west wet
wheel white wide wild wind window winter wise wolf wood wool word yellow young zebra
"""
WORDS = _WORDS.split()

_NAMES = """
Ada Alan Anna Ben Carl Clara David Emma Erik Eva Felix Frank Grace Hana Henry Ida Ivan Jack Julia Karl Kim Laura Leo
Lina Maria Max Mia Nina Noah Nora Olga Oscar Otto Paul Peter Rosa Sam Sara Sofia Tom Vera Victor
"""
NAMES = _NAMES.split()

CAPITALS = {
    "France": "Paris",
    "Germany": "Berlin",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Portugal": "Lisbon",
    "Austria": "Vienna",
    "Poland": "Warsaw",
    "Greece": "Athens",
    "Norway": "Oslo",
    "Sweden": "Stockholm",
    "Finland": "Helsinki",
    "Denmark": "Copenhagen",
    "Ireland": "Dublin",
    "Hungary": "Budapest",
    "Japan": "Tokyo",
    "China": "Beijing",
    "India": "Delhi",
    "Egypt": "Cairo",
    "Kenya": "Nairobi",
    "Canada": "Ottawa",
    "Cuba": "Havana",
    "Peru": "Lima",
}
_OPPOSITES = """
hot cold | big small | day night | old new | fast slow | high low | light dark | open closed | happy sad | wet dry |
full empty |  long short | early late | strong weak | rich poor | thick thin | hard soft | left right | up down | yes
no | north south | east west
"""
OPPOSITES = {a: b for pair in _OPPOSITES.split("|") for a, b in (pair.split(), reversed(pair.split()))}
_SETS = {
    "the days of the week": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "the months of the year": "January February March April May June July August September October November December",
    "the seasons": "spring summer autumn winter",
    "the colours of the rainbow": "red orange yellow green blue indigo violet",
    "the planets": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune",
    "the letters of the alphabet": "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "the vowels": "a e i o u",
}
SETS = {name: members.split() for name, members in _SETS.items()}
HELLO_IN = {
    "English": "Hello",
    "French": "Bonjour",
    "German": "Guten Tag",
    "Spanish": "Hola",
    "Japanese": "こんにちは",
    "Russian": "Привет",
    "Greek": "Γειά σου",
    "Chinese": "你好",
}
EMOJI = {
    "smile": "🙂",
    "rocket": "🚀",
    "heart": "❤️",
    "fish": "🐟",
    "star": "⭐",
    "moon": "🌙",
    "tree": "🌳",
    "cat": "🐈",
}
SKIES = ["sunny", "cloudy", "rainy", "windy", "snowy"]
UNKNOWN = "I do not know that. I am only a very small model."

WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city now.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ADD_TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "The sum of two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
}
