// Ratings from text: one pass over the bytes gives codes, names, scores and the first line of every kind of mistake.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>

#include "arrays.hpp"
#include "vocabulary.hpp"

namespace starcast {

struct Layout {
  std::string separator;  // " " stands for any run of blanks
  int user, item, rating, time;  // columns; time is -1 when there is none
  bool quotes;  // fields may be quoted, as in RFC 4180
  int last = std::max({user, item, rating, time});  // columns beyond it do not matter
};

enum Mistake { kFewColumns, kOpenQuote, kNoUser, kNoItem, kRatingNotNumber, kRatingNotFinite, kBadTime, kMistakes };
constexpr std::array<const char*, kMistakes> kMistakeNames = {
    "few_columns", "open_quote", "no_user", "no_item", "rating_not_number", "rating_not_finite", "bad_time"};

struct Found {
  int64_t count = 0, line = 0;
  std::string text;
};

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && (is_blank(text.back()) || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Decimal text to double. Up to 15 digits and 22 places the quotient of two exact doubles is correctly rounded.
static bool parse_number(std::string_view text, double& value) {
  static constexpr double kPowers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  if (text.empty()) return false;
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '9') return value = text[0] - '0', true;
  const bool negative = text[0] == '-';
  int64_t mantissa = 0;
  int digits = 0, places = -1;
  for (size_t at = negative; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && places < 0) {
      places = 0;
    } else if (c >= '0' && c <= '9' && digits < 15) {
      mantissa = mantissa * 10 + (c - '0');
      ++digits;
      if (places >= 0) ++places;
    } else {
      digits = -1;
      break;
    }
  }
  if (digits > 0) {
    value = static_cast<double>(mantissa) / kPowers[std::max(places, 0)];
    if (negative) value = -value;
    return true;
  }
  if (text[0] == '+' && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
#if defined(__cpp_lib_to_chars)
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return false;
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(text).c_str(), nullptr);  // 0 or infinity
  return true;
#else
  const std::string copy(text);
  char* end = nullptr;
  value = std::strtod(copy.c_str(), &end);
  return !copy.empty() && end == copy.c_str() + copy.size();
#endif
}

// The few distinct values that ratings take, in the order of first sight, with the line of that sight.
class ScoreTable {
 public:
  static constexpr size_t kMost = 127;

  int16_t code(double value, int64_t line) {
    if (value == 0) value = 0;  // -0 is 0
    if (last_ >= 0 && values[last_] == value) return last_;
    for (size_t c = 0; c < values.size(); ++c)
      if (values[c] == value) return last_ = static_cast<int16_t>(c);
    if (values.size() > kMost) return 0;  // one more than allowed is enough to know
    values.push_back(value);
    lines.push_back(line);
    return last_ = static_cast<int16_t>(values.size() - 1);
  }

  std::vector<double> values;
  std::vector<int64_t> lines;

 private:
  int16_t last_ = -1;
};

// What one stretch of the file holds.
struct Part {
  TextVocabulary users, items;
  ScoreTable scores;
  std::vector<int32_t> user, item;
  std::vector<int16_t> score;
  std::vector<int64_t> time;
  std::array<Found, kMistakes> found;
  int64_t lines = 0;

  void report(Mistake kind, std::string_view text) {
    Found& f = found[kind];
    if (f.count++ == 0) {
      f.line = lines;
      f.text = std::string(text.substr(0, 60));
    }
  }
};

// A field, its surrounding quotes taken off; doubled quotes inside need a copy, which `keeper` holds.
static std::string_view unquote(std::string_view field, TextVocabulary& keeper) {
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') return field;
  field = field.substr(1, field.size() - 2);
  if (field.find("\"\"") == std::string_view::npos) return field;
  std::string plain;
  for (size_t at = 0; at < field.size(); ++at) {
    plain.push_back(field[at]);
    if (field[at] == '"' && at + 1 < field.size() && field[at + 1] == '"') ++at;
  }
  return keeper.keep(std::move(plain));
}

// The end of the quoted text that starts at `at`: one past its closing quote, or npos.
static size_t past_quoted(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] != '"') continue;
    if (at + 1 < text.size() && text[at + 1] == '"') ++at;
    else return at + 1;
  }
  return std::string_view::npos;
}

// Cuts fields off the front of a record.
class Fields {
 public:
  Fields(std::string_view record, const Layout& layout) : rest_(record), layout_(layout), blanks_(layout.separator == " ") {
    if (blanks_) rest_ = trim(rest_);
  }

  bool next(std::string_view& field) {
    if (done_) return false;
    size_t from = 0;
    if (layout_.quotes && !rest_.empty() && rest_[0] == '"') {
      const size_t end = past_quoted(rest_, 0);
      from = end == std::string_view::npos ? rest_.size() : end;
    }
    const size_t end = find_separator(from);
    if (end == std::string_view::npos) {
      field = trim(rest_);
      done_ = true;
      return true;
    }
    field = trim(rest_.substr(0, end));
    rest_.remove_prefix(end + layout_.separator.size());
    if (blanks_) rest_ = trim(rest_);
    return true;
  }

 private:
  size_t find_separator(size_t from) const {
    return blanks_ ? rest_.find_first_of(" \t", from) : rest_.find(layout_.separator, from);
  }

  std::string_view rest_;
  const Layout& layout_;
  bool blanks_, done_ = false;
};

// The length of the record at the front of the text, without its line break. With quotes a record may span lines.
static size_t record_length(std::string_view text, const Layout& layout, bool& open) {
  open = false;
  if (!layout.quotes) return std::min(text.find('\n'), text.size());
  const bool blanks = layout.separator == " ";
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      const size_t end = past_quoted(text, at);
      open = end == std::string_view::npos;
      if (open) return text.size();
      at = end;
    }
    // The separator is sought within the line only: it may not occur in the rest of the file.
    const std::string_view line = text.substr(0, text.find('\n', at));
    const size_t stop = blanks ? line.find_first_of(" \t", at) : line.find(layout.separator, at);
    if (stop == std::string_view::npos) return line.size();
    at = stop + layout.separator.size();
  }
  return text.size();
}

// The fields that matter of one record; `complete` is false when it has too few columns.
struct Record {
  std::string_view user, item, rating, time;
  bool complete = false;

  void set(int column, std::string_view field, const Layout& layout) {
    if (column == layout.user) user = field;
    if (column == layout.item) item = field;
    if (column == layout.rating) rating = field;
    if (column == layout.time) time = field;
    complete = column == layout.last;
  }
};

static void split_record(std::string_view text, const Layout& layout, Part& part, Record& record) {
  Fields fields(text, layout);
  std::string_view field;
  for (int column = 0; column <= layout.last && fields.next(field); ++column) record.set(column, field, layout);
  record.user = unquote(record.user, part.users);
  record.item = unquote(record.item, part.items);
  record.rating = unquote(record.rating, part.items);
  record.time = unquote(record.time, part.items);
}

// The same for the usual text, without quotes and runs of blanks, in one pass over its bytes. Returns the length.
static size_t split_plain(std::string_view text, const Layout& layout, Record& record) {
  const std::string_view separator = layout.separator;
  const char first = separator[0];
  const char *at = text.data(), *const end = at + text.size();
  const auto at_separator = [&] {
    if (*at != first || separator.size() == 1) return *at == first;
    if (separator.size() == 2) return end - at > 1 && at[1] == separator[1];
    return std::string_view(at, end - at).starts_with(separator);
  };
  for (int column = 0; !record.complete; ++column) {
    const char* const start = at;
    while (at < end && *at != '\n' && !at_separator()) ++at;
    record.set(column, trim({start, static_cast<size_t>(at - start)}), layout);
    if (at == end || *at == '\n') break;
    at += separator.size();
  }
  const void* line_end = at < end ? std::memchr(at, '\n', end - at) : nullptr;
  return line_end ? static_cast<const char*>(line_end) - text.data() : text.size();
}

static void add_record(const Record& record, std::string_view text, const Layout& layout, Part& part) {
  if (!record.complete) return part.report(kFewColumns, trim(text));
  if (record.user.empty()) return part.report(kNoUser, trim(text));
  if (record.item.empty()) return part.report(kNoItem, trim(text));
  double value, fraction;
  if (!parse_number(record.rating, value)) return part.report(kRatingNotNumber, record.rating);
  if (!std::isfinite(value)) return part.report(kRatingNotFinite, record.rating);
  int64_t seconds = 0;
  if (layout.time >= 0 && !parse_canonical_integer(record.time, seconds)) {
    if (!parse_number(record.time, fraction) || !(std::fabs(fraction) < 9e18)) return part.report(kBadTime, record.time);
    seconds = static_cast<int64_t>(std::floor(fraction));
  }
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
    if (!plain && !open) split_record(line, layout, part, record);
    if (open) part.report(kOpenQuote, line);
    else if (record.complete || !trim(line).empty()) add_record(record, line, layout, part);
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

static nb::object names_of(const TextVocabulary& vocabulary) {
  const auto& names = vocabulary.names();
  if (vocabulary.all_integers()) {
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
    std::vector<std::jthread> threads;
    for (Part& part : parts) {
      std::vector<int16_t> recoded_scores;
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
        if (f.count && !found[kind].count) found[kind] = {0, lines + f.line, f.text};
        found[kind].count += f.count;
      }
      from += part.user.size();
      lines += part.lines;
    }
  }

  TextVocabulary users, items;
  ScoreTable scores;
  std::vector<int32_t> user, item;
  std::vector<int16_t> score;
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

static nb::dict read_text(nb::bytes content, size_t offset, const std::string& separator, int user, int item, int rating,
                          int time, int n_threads) {
  std::string_view text(content.c_str(), content.size());
  text.remove_prefix(std::min(offset, text.size()));
  const Layout layout{separator, user, item, rating, time, text.find('"') != std::string_view::npos};
  std::vector<Part> parts;
  std::unique_ptr<Joined> joined;
  {
    nb::gil_scoped_release release;
    const auto stretches = cut(text, std::max(n_threads, 1), layout.quotes);
    parts = std::vector<Part>(stretches.size());
    std::vector<std::exception_ptr> errors(parts.size());
    {
      std::vector<std::jthread> threads;
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
    if (f.count) mistakes[kMistakeNames[kind]] = nb::make_tuple(f.count, f.line, nb::bytes(f.text.data(), f.text.size()));
  }
  nb::dict table;
  table["users"] = names_of(joined->users);
  table["items"] = names_of(joined->items);
  table["user"] = to_numpy(std::move(joined->user));
  table["item"] = to_numpy(std::move(joined->item));
  table["score"] = to_numpy(std::move(joined->score));
  table["scores"] = to_numpy(std::move(joined->scores.values));
  table["score_lines"] = to_numpy(std::move(joined->scores.lines));
  table["time"] = to_numpy(std::move(joined->time));
  table["mistakes"] = mistakes;
  return table;
}

void bind_text(nb::module_& m) {
  m.def("read_text", &read_text, nb::arg("content"), nb::arg("offset"), nb::arg("separator"), nb::arg("user"),
        nb::arg("item"), nb::arg("rating"), nb::arg("time"), nb::arg("n_threads"));
}

}  // namespace starcast
