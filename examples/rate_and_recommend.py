"""What should I watch, and how sure is the model of it?

Ratings go in, a list comes out: each film with the score that is most likely and how likely that score is, and nothing
at all about films of which the model is less sure than asked.
"""

import starcast as sc

ratings = sc.load_sample()
print(ratings)

# A single fit takes a second. OrdinalMF() averages over 64 draws of the posterior: better, and half a minute of work.
model = sc.OrdinalMF(update="gradient", n_draws=0, random_state=0).fit(ratings)

USER, PRETTY_WOMAN = 196, 597
print(f"\nThe best films for user {USER}, where the model is at least 60% sure of the score:")
best = model.recommend(USER, n=10, threshold=0.6)
for film in best.to_dicts():
    print(f"{film['rank']:3}. {film['title']:<60} {film['prediction']:g} stars, {film['reliability']:.0%} sure")

print("\nThe whole forecast for the first of them, and for a film that divides people:")
films = [best["item"][0], PRETTY_WOMAN]
forecast = model.predict_proba(USER, films)
for title, probs in zip(model.titles_for(films), forecast.probs, strict=True):
    print(f"  {title}")
    for score, prob in zip(forecast.scores, probs, strict=True):
        print(f"    {score:3g} {'█' * round(40 * prob)} {prob:.0%}")

print("\nWhich ratings moved the forecast for the second most:")
for reason in model.explain(USER, PRETTY_WOMAN, n=3).to_dicts():
    print(f"  {reason['rating']:g} stars for {reason['title']}: {reason['shift']:+.3f} stars")
