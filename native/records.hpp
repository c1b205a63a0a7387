// Lines of a text cut into the fields that matter: separators of any length, runs of blanks, quotes as in RFC 4180.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "vocabulary.hpp"

namespace starcast {

struct Layout {
  std::string separator;                            // " " stands for any run of blanks
  int user, item, rating, time;                     // columns; time is -1 when there is none
  bool quotes;                                      // fields may be quoted, as in RFC 4180
  int least, most;                                  // fields of a line; empty ones beyond `most` do not count
  int last = std::max({user, item, rating, time});  // columns beyond it are counted only
};

inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

inline std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && (is_blank(text.back()) || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Decimal text to double. Up to 15 digits and 22 places the quotient of two exact doubles is correctly rounded.
inline bool parse_number(std::string_view text, double& value) {
  static constexpr double kPowers[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
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
  if (error == std::errc::result_out_of_range)
    value = std::strtod(std::string(text).c_str(), nullptr);  // 0 or infinity
  return true;
#else
  const std::string copy(text);
  char* end = nullptr;
  value = std::strtod(copy.c_str(), &end);
  return !copy.empty() && end == copy.c_str() + copy.size();
#endif
}

// Whole seconds of a number of seconds, milli-, micro- or nanoseconds. Its size tells the unit: 1e11 seconds are the
// year 5138, 1e11 milliseconds the year 1973, and so on by factors of a thousand.
inline int64_t to_seconds(int64_t number) {
  const int64_t size = number < 0 ? -(number + 1) : number;
  int64_t unit = 1;
  for (int64_t limit = 100'000'000'000; unit < 1'000'000'000 && size >= limit; limit *= 1000) unit *= 1000;
  const int64_t quotient = number / unit;
  return quotient - (number % unit < 0);
}

// Cuts a number of exactly `n` digits off the front of a text.
inline bool take_digits(std::string_view& text, size_t n, int& number) {
  if (text.size() < n) return false;
  number = 0;
  for (size_t at = 0; at < n; ++at) {
    if (text[at] < '0' || text[at] > '9') return false;
    number = number * 10 + (text[at] - '0');
  }
  text.remove_prefix(n);
  return true;
}

inline bool take(std::string_view& text, std::string_view letters) {
  if (text.empty() || letters.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// A date as in ISO 8601, with or without a time of day, to whole seconds since 1970. The time is UTC unless it has an
// offset. 2005-09-06, 2005-09-06 12:30, 2005-09-06T12:30:00.25Z, 2005-09-06 12:30:00+02:00
inline bool parse_date(std::string_view text, int64_t& seconds) {
  int year, month, day, hour = 0, minute = 0, second = 0, shift_hour = 0, shift_minute = 0;
  if (!take_digits(text, 4, year) || !take(text, "-") || !take_digits(text, 2, month) || !take(text, "-") ||
      !take_digits(text, 2, day))
    return false;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok()) return false;
  int sign = 0;
  if (!text.empty()) {
    if (!take(text, "Tt ") || !take_digits(text, 2, hour) || !take(text, ":") || !take_digits(text, 2, minute))
      return false;
    if (take(text, ":")) {
      if (!take_digits(text, 2, second)) return false;
      if (take(text, ".,")) {
        if (!take(text, "0123456789")) return false;
        while (take(text, "0123456789")) {
        }
      }
    }
    take(text, " ");
    if (text == "UTC" || text == "Z" || text == "z") text = {};
    if (!text.empty()) {
      sign = text[0] == '-' ? -1 : 1;
      if (!take(text, "+-") || !take_digits(text, 2, shift_hour)) return false;
      take(text, ":");
      if (!text.empty() && !take_digits(text, 2, shift_minute)) return false;
    }
  }
  if (!text.empty() || hour > 23 || minute > 59 || second > 60 || shift_hour > 23 || shift_minute > 59) return false;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  seconds = days * 86400 + hour * 3600 + minute * 60 + second - sign * (shift_hour * 3600 + shift_minute * 60);
  return true;
}

// A time as whole seconds since 1970: a date, or a number of seconds or of a thousandth, millionth, … of them.
inline bool parse_time(std::string_view text, int64_t& seconds) {
  int64_t number;
  double fraction;
  constexpr int64_t largest = 9'000'000'000'000'000'000;  // as for numbers with a fraction
  if (parse_canonical_integer(text, number) && number < largest && number > -largest)
    return seconds = to_seconds(number), true;
  if (text.size() > 4 && text[4] == '-') return parse_date(text, seconds);
  if (!parse_number(text, fraction) || !(std::fabs(fraction) < 9e18)) return false;
  return seconds = to_seconds(static_cast<int64_t>(std::floor(fraction))), true;
}

// A field, its surrounding quotes taken off; doubled quotes inside need a copy, which `keeper` holds.
inline std::string_view unquote(std::string_view field, TextVocabulary& keeper) {
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
inline size_t past_quoted(std::string_view text, size_t at) {
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
  Fields(std::string_view record, const Layout& layout)
      : rest_(record), layout_(layout), blanks_(layout.separator == " ") {
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
inline size_t record_length(std::string_view text, const Layout& layout, bool& open) {
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

// The fields that matter of one record, and how many it has.
struct Record {
  std::string_view user, item, rating, time;
  int fields = 0;

  void set(int column, std::string_view field, const Layout& layout) {
    if (column == layout.user) user = field;
    if (column == layout.item) item = field;
    if (column == layout.rating) rating = field;
    if (column == layout.time) time = field;
    if (column < layout.most || !field.empty()) fields = column + 1;
  }
};

inline void split_record(std::string_view text, const Layout& layout, TextVocabulary& keeper, Record& record) {
  Fields fields(text, layout);
  std::string_view field;
  for (int column = 0; fields.next(field); ++column) record.set(column, field, layout);
  record.user = unquote(record.user, keeper);
  record.item = unquote(record.item, keeper);
  record.rating = unquote(record.rating, keeper);
  record.time = unquote(record.time, keeper);
}

// The same for the usual text, without quotes and runs of blanks, in one pass over its bytes. Returns the length.
inline size_t split_plain(std::string_view text, const Layout& layout, Record& record) {
  const std::string_view separator = layout.separator;
  const char first = separator[0];
  const char *at = text.data(), *const end = at + text.size();
  const auto at_separator = [&] {
    if (*at != first || separator.size() == 1) return *at == first;
    if (separator.size() == 2) return end - at > 1 && at[1] == separator[1];
    return std::string_view(at, end - at).starts_with(separator);
  };
  for (int column = 0;; ++column) {
    const char* const start = at;
    while (at < end && *at != '\n' && !at_separator()) ++at;
    record.set(column, trim({start, static_cast<size_t>(at - start)}), layout);
    if (at == end || *at == '\n') break;
    at += separator.size();
  }
  return at - text.data();
}

}  // namespace starcast
