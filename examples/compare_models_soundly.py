"""Is one model better than another, or was it lucky with these ratings?

All models answer for the same test ratings, which none of them has seen. Test users and test items are resampled five
hundred times, since the ratings of one user are alike, and those of one item. The interval holds 95% of the differences
that come out; a difference is clear if the interval does not hold 0.
"""

import starcast as sc

ratings = sc.load_sample()
train, test = sc.benchmark_split(ratings)  # a block of other users × other items, as in the paper

models = {
    "OrdinalMF": sc.OrdinalMF(update="gradient", n_draws=0, random_state=0),
    "ResBeMF": sc.ResBeMF(random_state=0),
    "naive Bayes": sc.NaiveBayes(),
}
for model in models.values():
    model.fit(train)

table = sc.compare(models, test, ["nll", "rmse", "accuracy@0"], n_resamples=500)

print(f"{len(test):,} ratings of {len(test.users)} users that no model has seen; 95% intervals\n")
for row in table:
    low, high = row["low"], row["high"]
    smaller_wins = row["measure"] != "accuracy@0"
    verdict = "not clear"
    if row["clear"]:
        verdict = f"{row['model'] if (high < 0) == smaller_wins else row['other']} is better"
    print(
        f"{row['measure']:<11} {row['model']:<10} {row['value']:.3f}   {row['other']:<12} {row['other_value']:.3f}   ",
        end="",
    )
    print(f"difference {row['difference']:+.3f} ({low:+.3f} to {high:+.3f})   {verdict}")
