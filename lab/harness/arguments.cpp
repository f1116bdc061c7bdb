// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/arguments.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lab {
namespace {

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string joined(const std::vector<unsigned>& values) {
  std::string text;
  for (const unsigned value : values) text.append(text.empty() ? "" : ",") += std::to_string(value);
  return text;
}

std::string underscored(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

/// The edit distance of two words (Levenshtein, 1965).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::uint64_t detail::read_number(std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error == std::errc::invalid_argument || stop != end) {
    throw usage_error("is not a whole number");
  }
  if (error != std::errc() || value < least || value > most) throw usage_error("is out of range");
  return value;
}

std::string detail::range_text(std::uint64_t least, std::uint64_t most, std::uint64_t unlimited) {
  return std::to_string(least) + ".." + (most == unlimited ? "" : std::to_string(most));
}

arguments& arguments::decimal(std::string name, double& value, std::string help) {
  options_.push_back({
      .name = std::move(name),
      .takes = "NUMBER",
      .help = std::move(help),
      .read =
          [&value](std::string_view text) {
            const char* end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, value);
            if (error != std::errc() || stop != end || !std::isfinite(value) || value < 0) {
              throw usage_error("is not a number from 0 up");
            }
          },
      .show = [&value] { return value == 0 ? std::string("0") : std::to_string(value); },
      .report = [&value](json_object& to, std::string_view key) { to.add(key, value); },
  });
  return *this;
}

arguments& arguments::list(std::string name, std::vector<unsigned>& values, std::string help) {
  options_.push_back({
      .name = std::move(name),
      .takes = "N,N...",
      .help = std::move(help),
      .read =
          [&values](std::string_view text) {
            values.clear();
            for (std::size_t begin = 0; begin <= text.size();) {
              const std::size_t comma = std::min(text.find(',', begin), text.size());
              const auto item = text.substr(begin, comma - begin);
              values.push_back(static_cast<unsigned>(
                  detail::read_number(item, 0, std::numeric_limits<unsigned>::max())));
              begin = comma + 1;
            }
          },
      .show = [&values] { return joined(values); },
      .report = [&values](json_object& to, std::string_view key) { to.add(key, joined(values)); },
  });
  return *this;
}

arguments& arguments::end_of_parameters() {
  parameters_ = options_.size();
  return *this;
}

void arguments::parse(int argc, const char* const* argv) {
  for (option& each : options_) each.is_set = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      throw usage_error(quoted(word) + " is not expected: options are written --key value");
    }
    option& wanted = find(word.substr(2));
    if (wanted.is_set) throw usage_error(std::string(word) + " is given twice");
    wanted.is_set = true;
    if (++i == argc) throw usage_error(std::string(word) + " needs a value: " + wanted.takes);
    try {
      wanted.read(argv[i]);
    } catch (const usage_error& wrong) {
      throw usage_error(std::string(word) + ": " + quoted(argv[i]) + " " + wrong.what() +
                        "; it takes " + wanted.takes);
    }
  }
}

arguments::option& arguments::find(std::string_view key) {
  const auto found = std::ranges::find(options_, key, &option::name);
  if (found != options_.end()) return *found;

  std::string message = "unknown option --" + std::string(key);
  const auto away = [key](const option& known) { return distance(known.name, key); };
  const auto nearest = std::ranges::min_element(options_, {}, away);
  if (nearest != options_.end() && away(*nearest) <= 2) {
    message += "; did you mean --" + nearest->name + "?";
  }
  throw usage_error(message);
}

std::string arguments::help() const {
  std::string text;
  for (const option& each : options_) {
    std::string left = "  --" + each.name + " " + each.takes;
    left.resize(std::max<std::size_t>(left.size() + 2, 34), ' ');
    text += left + each.help;
    if (const std::string value = each.show(); !value.empty()) text += " (" + value + ")";
    text += '\n';
  }
  return text;
}

json_object arguments::values() const {
  json_object object;
  for (std::size_t i = 0; i < parameters_; ++i) {
    options_[i].report(object, underscored(options_[i].name));
  }
  return object;
}

}  // namespace lab
