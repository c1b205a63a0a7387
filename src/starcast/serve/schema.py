"""Questions and answers as JSON: what the service takes, what it gives, and examples of both."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

# Names travel as in the model's data: whole numbers of 64 bits, or text. FastAPI would describe the bounds as doubles.
LEAST, MOST = -(2**63), 2**63 - 1
Integer = Annotated[StrictInt, Field(ge=LEAST, le=MOST)]
Text = Annotated[StrictStr, Field(max_length=1000)]
Name = Integer | Text
Names = Annotated[list[Name], Field(fail_fast=True)]  # one mistake is enough: a body has room for a hundred thousand
NameText = Annotated[str, Field(max_length=1000, examples=["1"])]
NameTexts = Annotated[list[NameText], Field(fail_fast=True)]
Number = Annotated[StrictFloat, Field(allow_inf_nan=False)]
Fraction = Annotated[Number, Field(ge=0, le=1)]
Count = Annotated[StrictInt, Field(ge=1)]
Words = Annotated[str, Field(max_length=200)]
Size = Annotated[int, Field(ge=1, le=200)]
LISTED = {"n": "n", "exclude": "pairs", "candidates": "pairs"}


class Question(BaseModel):
    """What a client sends; a field that is not there is a mistake, not a wish.

    `LIMITED` has the limit of each field that has one: of the length of a list, or of a number.
    """

    LIMITED: ClassVar[dict[str, str]] = {}

    model_config = ConfigDict(extra="forbid")


def _example(**example: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


class Pair(Question):
    """A user and an item."""

    user: Name
    item: Name


class Rating(Question):
    """What somebody gave an item."""

    item: Name
    rating: Number


Ratings = Annotated[list[Rating], Field(min_length=1, fail_fast=True)]


class PredictQuestion(Question):
    """Forecasts for pairs."""

    LIMITED = {"pairs": "pairs"}
    model_config = _example(pairs=[{"user": 1, "item": 2}], threshold=0.5, point="mode")

    pairs: Annotated[list[Pair], Field(min_length=1, fail_fast=True)]
    threshold: Fraction = 0.0
    point: Literal["mode", "median", "mean"] = "mode"


class RecommendQuestion(Question):
    """The best items for a user."""

    LIMITED = LISTED
    model_config = _example(user=1, n=10, threshold=0.5)

    user: Name
    n: Count = 10
    threshold: Fraction = 0.0
    exclude: Names = []
    candidates: Names | None = None
    exclude_seen: StrictBool = True


class RecommendQuery(Question):
    """The same as a query string; lists are repeated."""

    LIMITED = LISTED

    user: NameText
    n: Annotated[int, Field(ge=1)] = 10
    threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    exclude: NameTexts = []
    candidates: NameTexts | None = None
    exclude_seen: bool = True


class FoldInQuestion(Question):
    """The best items for a stranger who rated a few."""

    LIMITED = LISTED | {"ratings": "ratings", "items": "pairs"}
    model_config = _example(ratings=[{"item": 1, "rating": 5}, {"item": 2, "rating": 2}], n=10)

    ratings: Ratings
    n: Count = 10
    threshold: Fraction = 0.0
    exclude: Names = []
    candidates: Names | None = None
    items: Names = []


class ExplainQuestion(Question):
    """Why a forecast is what it is, for a user or for a stranger's ratings."""

    LIMITED = {"n": "n", "ratings": "ratings"}
    model_config = _example(user=1, item=2, n=5)

    user: Name | None = None
    ratings: Ratings | None = None
    item: Name
    n: Count = 5


class ItemsQuery(Question):
    """Words of a title, in any order, the last ones perhaps unfinished."""

    query: Words = ""
    limit: Size = 20
    offset: Annotated[int, Field(ge=0, le=2**31)] = 0


class UsersQuery(Question):
    """How a user's name begins."""

    query: Words = ""
    limit: Size = 20


class RatingsQuery(Question):
    """Whose ratings."""

    user: NameText
    limit: Size = 20


class Forecast(BaseModel):
    """A probability for every score, a prediction unless it is withheld, and how far it can be relied upon."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "item": 318, "title": "Shawshank Redemption, The", "year": 1994, "known": True, "prediction": 5,
                    "probs": [0.01, 0.02, 0.06, 0.3, 0.61], "mean": 4.48, "reliability": 0.61,
                }
            ]
        }
    )  # fmt: skip

    item: int | str
    title: str
    year: int | None
    probs: list[float]
    prediction: float | None
    mean: float
    reliability: float
    known: bool


class PairForecast(Forecast):
    """A forecast for a pair that was asked for."""

    user: int | str


class Recommendation(Forecast):
    """A forecast with its place in a list."""

    rank: int


class Predictions(BaseModel):
    """Forecasts in the order of the pairs."""

    scores: list[float]
    forecasts: list[PairForecast]


class Recommendations(BaseModel):
    """A user's list, the best first."""

    user: int | str
    scores: list[float]
    recommendations: list[Recommendation]


class StrangersList(BaseModel):
    """A stranger's list, and forecasts for the items that were asked for, in their order."""

    scores: list[float]
    recommendations: list[Recommendation]
    forecasts: list[Forecast]


class Reason(BaseModel):
    """A rating that moved a forecast: by how many stars its mean, and by how much probability all in all."""

    item: int | str
    title: str
    year: int | None
    rating: float
    shift: float
    moved: float
    direction: Literal["up", "down", "level"]


class Explanation(BaseModel):
    """A forecast and the ratings that moved it most."""

    item: int | str
    scores: list[float]
    forecast: Forecast
    reasons: list[Reason]


class Item(BaseModel):
    """An item of the catalogue."""

    item: int | str
    title: str
    year: int | None
    n_ratings: int


class Items(BaseModel):
    """A page of what was found, and how much there is."""

    items: list[Item]
    total: int


class User(BaseModel):
    """A user of the data."""

    user: int | str
    n_ratings: int


class Users(BaseModel):
    """The users found, the busiest first, and how many there are."""

    users: list[User]
    total: int


class GivenRating(BaseModel):
    """A rating that a user gave."""

    item: int | str
    title: str
    year: int | None
    rating: float


class GivenRatings(BaseModel):
    """What a user rated, highest first."""

    ratings: list[GivenRating]


class Data(BaseModel):
    """What the model learnt from."""

    name: str | None
    users: int
    items: int
    ratings: int
    digest: str


class Metrics(BaseModel):
    """Of all forecasts of the card; null where undefined."""

    accuracy: float | None
    mae: float | None
    rmse: float | None
    nll: float | None
    ece: float | None


class CurvePoint(BaseModel):
    """What a threshold costs (coverage) and buys (accuracy, error); null where nothing is left."""

    threshold: float
    coverage: float
    accuracy: float | None
    mae: float | None


class Card(BaseModel):
    """How good the forecasts are, and how that is known."""

    source: Literal["held-out ratings", "the model's own forecasts"]
    n: int
    metrics: Metrics
    curve: list[CurvePoint]


class About(BaseModel):
    """What is served."""

    model: str
    parameters: dict[str, Any]
    data: Data
    scores: list[float]
    calibrated: bool
    has_titles: bool
    can_fold_in: bool
    can_explain: bool
    limits: dict[str, int]
    card: Card
    version: str


class Status(BaseModel):
    """A word."""

    status: str


class Mistake(BaseModel):
    """A code for programs; what must hold, what was found and what to do, for people."""

    code: str
    message: str


class ErrorAnswer(BaseModel):
    """What every refusal looks like."""

    error: Mistake
