"""What does a fitted model tell someone it has never met?

A few ratings place a newcomer among the users within milliseconds. The model stays as it is; nothing is fitted anew.
"""

import starcast as sc

model = sc.OrdinalMF(update="gradient", n_draws=0, random_state=0).fit(sc.load_sample())

MINE = [(260, 5), (541, 5), (1214, 4.5), (597, 1.5), (1721, 2)]
ALIENS = 1200


def meet(ratings):
    """Return a model of one newcomer with these ratings."""
    items, stars = zip(*ratings, strict=True)
    return model.fold_in(sc.Ratings.from_arrays(["me"] * len(items), items, stars, scores=model.scores_))


print("Rated:")
for title, (_, stars) in zip(model.titles_for([item for item, _ in MINE]), MINE, strict=True):
    print(f"  {stars:g} stars for {title}")

print(f"\nThe forecast for {model.titles_for([ALIENS])[0]} as the ratings come in:")
for count in (1, 3, 5):
    told = meet(MINE[:count]).predict_proba("me", ALIENS)
    print(f"  {count} rated: {told.mean()[0]:.2f} stars, {told.reliability()[0]:.0%} sure of {told.mode()[0]:g}")

me = meet(MINE)
print("\nFor me, where the model is at least 40% sure:")
for film in me.recommend("me", n=5, threshold=0.4).to_dicts():
    print(f"  {film['rank']}. {film['title']}: {film['prediction']:g} stars, {film['reliability']:.0%} sure")

print("\nWhy Aliens:")
for reason in me.explain("me", ALIENS, n=3).to_dicts():
    print(f"  {reason['rating']:g} stars for {reason['title']}: {reason['shift']:+.2f} stars")
