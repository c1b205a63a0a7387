// Ratings from text: one pass over the bytes gives codes, names, scores and the first line of every kind of mistake.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>

#include "arrays.hpp"
#include "records.hpp"
#include "threads.hpp"

namespace starcast {

enum Mistake { kFieldCount, kOpenQuote, kNoUser, kNoItem, kRatingNotNumber, kRatingNotFinite, kBadTime, kMistakes };
constexpr std::array<const char*, kMistakes> kMistakeNames = {
    "field_count", "open_quote", "no_user", "no_item", "rating_not_number", "rating_not_finite", "bad_time"};

struct Found {
  int64_t count = 0, line = 0;
  std::string text;
  int fields = 0;
};

// The distinct values that ratings take, in the order of first sight, with the line of that sight.
class ScoreTable {
 public:
  static constexpr size_t kFew = 16;  // values that are found faster one by one than by their hash

  int32_t code(double value, int64_t line) {
    if (value == 0) value = 0;  // -0 is 0
    if (last_ >= 0 && values[last_] == value) return last_;
    const size_t few = std::min(values.size(), kFew);
    for (size_t c = 0; c < few; ++c)
      if (values[c] == value) return last_ = static_cast<int32_t>(c);
    auto code = static_cast<int32_t>(values.size());
    if (values.size() >= kFew)
      code = rest_.find_or_add(mix(std::bit_cast<uint64_t>(value)), value, [this](int32_t c) { return values[c]; }, code);
    if (code == static_cast<int32_t>(values.size())) {
      values.push_back(value);
      lines.push_back(line);
    }
    return last_ = code;
  }

  std::vector<double> values;
  std::vector<int64_t> lines;

 private:
  Codes<double> rest_;
  int32_t last_ = -1;
};

// What one stretch of the file holds.
struct Part {
  TextVocabulary users, items;
  ScoreTable scores;
  std::vector<int32_t> user, item, score;
  std::vector<int64_t> time;
  std::array<Found, kMistakes> found;
  int64_t lines = 0;

  void report(Mistake kind, std::string_view text, int fields = 0) {
    Found& f = found[kind];
    if (f.count++ == 0) f = {1, lines, std::string(text.substr(0, 60)), fields};
  }
};

static void add_record(const Record& record, std::string_view text, const Layout& layout, Part& part) {
  if (record.fields < layout.least || record.fields > layout.most)
    return part.report(kFieldCount, trim(text), record.fields);
  if (record.user.empty()) return part.report(kNoUser, trim(text));
  if (record.item.empty()) return part.report(kNoItem, trim(text));
  double value;
  if (!parse_number(record.rating, value)) return part.report(kRatingNotNumber, record.rating);
  if (!std::isfinite(value)) return part.report(kRatingNotFinite, record.rating);
  int64_t seconds = 0;
  if (layout.time >= 0 && !parse_time(record.time, seconds)) return part.report(kBadTime, record.time);
  part.user.push_back(part.users.code(record.user));
  part.item.push_back(part.items.code(record.item));
  part.score.push_back(part.scores.code(value, part.lines));
  if (layout.time >= 0) part.time.push_back(seconds);
}

static void read_part(std::string_view text, const Layout& layout, Part& part) {
  const size_t guess = text.size() / 16;  // bytes of a typical line
  part.user.reserve(guess), part.item.reserve(guess), part.score.reserve(guess);
  if (layout.time >= 0) part.time.reserve(guess);
  const bool plain = !layout.quotes && layout.separator != " ";
  while (!text.empty()) {
    bool open = false;
    Record record;
    ++part.lines;
    const size_t length = plain ? split_plain(text, layout, record) : record_length(text, layout, open);
    const std::string_view line = text.substr(0, length);
    if (!plain && !open) split_record(line, layout, part.items, record);
    if (open) part.report(kOpenQuote, line);
    else if (record.fields >= layout.least || !trim(line).empty()) add_record(record, line, layout, part);
    if (layout.quotes) part.lines += std::count(line.begin(), line.end(), '\n');
    text.remove_prefix(std::min(length + 1, text.size()));
  }
}

// Stretches of about equal size that end at line breaks; one stretch when records may span lines.
static std::vector<std::string_view> cut(std::string_view text, size_t n, bool quotes) {
  std::vector<std::string_view> parts;
  if (quotes) n = 1;
  while (n > 1 && !text.empty()) {
    const size_t line_break = text.find('\n', text.size() / n--);
    const size_t end = line_break == std::string_view::npos ? text.size() : line_break + 1;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  if (!text.empty()) parts.push_back(text);
  return parts;
}

static nb::object names_of(const TextVocabulary& vocabulary, bool as_text) {
  const auto& names = vocabulary.names();
  if (vocabulary.all_integers() && !as_text) {
    std::vector<int64_t> numbers(names.size());
    for (size_t c = 0; c < names.size(); ++c) parse_canonical_integer(names[c], numbers[c]);
    return nb::cast(to_numpy(std::move(numbers)));
  }
  nb::list texts;
  for (const auto name : names) {
    PyObject* text = PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "strict");
    if (!text) throw nb::python_error();
    texts.append(nb::steal(text));
  }
  return texts;
}

// One table out of the parts, codes in the order of first appearance in the whole file.
class Joined {
 public:
  explicit Joined(std::vector<Part>& parts) {
    size_t rows = 0, timed = 0;
    for (const Part& part : parts) rows += part.user.size(), timed += part.time.size();
    user.resize(rows), item.resize(rows), score.resize(rows), time.resize(timed);
    size_t from = 0;
    Threads threads;
    for (Part& part : parts) {
      std::vector<int32_t> recoded_scores;
      for (size_t c = 0; c < part.scores.values.size(); ++c)
        recoded_scores.push_back(scores.code(part.scores.values[c], lines + part.scores.lines[c]));
      // Names are joined here, in order; the long columns are then recoded by one thread a part.
      threads.emplace_back([this, &part, from, u = recode(part.users, users), i = recode(part.items, items),
                            s = std::move(recoded_scores)] {
        for (size_t row = 0; row < part.user.size(); ++row) {
          user[from + row] = u[part.user[row]];
          item[from + row] = i[part.item[row]];
          score[from + row] = s[part.score[row]];
        }
        std::copy(part.time.begin(), part.time.end(), time.begin() + (time.empty() ? 0 : from));
      });
      for (int kind = 0; kind < kMistakes; ++kind) {
        const Found& f = part.found[kind];
        if (f.count && !found[kind].count) found[kind] = {0, lines + f.line, f.text, f.fields};
        found[kind].count += f.count;
      }
      from += part.user.size();
      lines += part.lines;
    }
  }

  TextVocabulary users, items;
  ScoreTable scores;
  std::vector<int32_t> user, item, score;
  std::vector<int64_t> time;
  std::array<Found, kMistakes> found;
  int64_t lines = 0;

 private:
  static std::vector<int32_t> recode(const TextVocabulary& local, TextVocabulary& global) {
    std::vector<int32_t> code;
    for (const auto name : local.names()) code.push_back(global.code(name));
    return code;
  }
};

static nb::dict read_text(nb::bytes content, size_t offset, const std::string& separator, int user, int item,
                          int rating, int time, int least, int most, bool text_ids, int n_threads) {
  if (separator.empty()) throw std::invalid_argument("separator must not be empty");
  std::string_view text(content.c_str(), content.size());
  text.remove_prefix(std::min(offset, text.size()));
  const Layout layout{separator, user, item, rating, time, text.find('"') != std::string_view::npos, least, most};
  std::vector<Part> parts;
  std::unique_ptr<Joined> joined;
  {
    nb::gil_scoped_release release;
    const auto stretches = cut(text, std::max(n_threads, 1), layout.quotes);
    parts = std::vector<Part>(stretches.size());
    std::vector<std::exception_ptr> errors(parts.size());
    {
      Threads threads;
      for (size_t k = 0; k < parts.size(); ++k)
        threads.emplace_back([&, k] {
          try {
            read_part(stretches[k], layout, parts[k]);
          } catch (...) {
            errors[k] = std::current_exception();
          }
        });
    }
    for (const auto& error : errors)
      if (error) std::rethrow_exception(error);
    joined = std::make_unique<Joined>(parts);
  }
  nb::dict mistakes;
  for (int kind = 0; kind < kMistakes; ++kind) {
    const Found& f = joined->found[kind];
    if (f.count)
      mistakes[kMistakeNames[kind]] = nb::make_tuple(f.count, f.line, nb::bytes(f.text.data(), f.text.size()), f.fields);
  }
  nb::dict table;
  table["users"] = names_of(joined->users, text_ids);
  table["items"] = names_of(joined->items, text_ids);
  table["user"] = to_numpy(std::move(joined->user));
  table["item"] = to_numpy(std::move(joined->item));
  table["score"] = to_numpy(std::move(joined->score));
  table["scores"] = to_numpy(std::move(joined->scores.values));
  table["score_lines"] = to_numpy(std::move(joined->scores.lines));
  table["time"] = to_numpy(std::move(joined->time));
  table["mistakes"] = mistakes;
  return table;
}

// Times that are written out, as whole seconds since 1970, and whether each could be read.
static auto parse_times(nb::list texts) {
  std::vector<int64_t> seconds(texts.size(), 0);
  std::vector<uint8_t> good(texts.size(), 0);
  for (size_t at = 0; at < texts.size(); ++at) {
    Py_ssize_t size = 0;
    const nb::handle text = texts[at];
    const char* letters = PyUnicode_Check(text.ptr()) ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
    if (letters) good[at] = parse_time(trim({letters, static_cast<size_t>(size)}), seconds[at]);
    else PyErr_Clear();  // half a character
  }
  return std::make_pair(to_numpy(std::move(seconds)), to_numpy(std::move(good)));
}

void bind_text(nb::module_& m) {
  m.def("read_text", &read_text, nb::arg("content"), nb::arg("offset"), nb::arg("separator"), nb::arg("user"),
        nb::arg("item"), nb::arg("rating"), nb::arg("time"), nb::arg("least"), nb::arg("most"),
        nb::arg("text_ids"), nb::arg("n_threads"));
  m.def("parse_times", &parse_times, nb::arg("texts"));
}

}  // namespace starcast
