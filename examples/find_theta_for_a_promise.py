"""Below which reliability must a model stay silent for half of its predictions to be exactly right?

The threshold at which the accuracy happens to be 0.5 on some ratings was chosen because it did well on them, and breaks
its promise on the next ones about every other time. `choose_threshold` tests instead, and says what surely holds.
"""

import starcast as sc

ratings = sc.load_sample()
train, rest = sc.holdout(ratings, test_size=0.4, random_state=0)
new, test = sc.holdout(rest, test_size=0.5, random_state=1)  # to choose by, and to judge by: each is asked once

model = sc.OrdinalMF(update="gradient", n_draws=0, random_state=0).fit(train)
theta = sc.choose_threshold(model, new, accuracy=0.5, confidence=0.9)

print("Promise: half of the predictions are exactly right, with a confidence of 90%.")
print(f"Threshold:             θ = {theta:.3f}")
print(f"On {theta.n_ratings:,} new ratings: accuracy {theta.observed:.3f}, surely at least {theta.bound:.3f}")
print(f"Price:                 {theta.coverage:.1%} of the ratings are predicted, silence for the others")

answers = model.predict(test.users[test.user], test.items[test.item], theta)
said = answers["prediction"].is_not_null()
right = (answers["prediction"] == test.values).filter(said).mean()
kept = "kept" if right >= 0.5 else "broken"
print(f"On {len(test):,} others:      accuracy {right:.3f}, {said.mean():.1%} predicted: the promise is {kept}")

print("\nWhat cannot be promised is refused, with what can:")
try:
    sc.choose_threshold(model, new, accuracy=0.95)
except sc.PromiseError as error:
    print(f"  {error}")
