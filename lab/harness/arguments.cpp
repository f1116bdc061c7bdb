// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/arguments.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

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

std::uint64_t read_number(std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error == std::errc::invalid_argument || stop != end) {
    throw usage_error("is not a whole number");
  }
  if (error != std::errc() || value < least || value > most) throw usage_error("is out of range");
  return value;
}

}  // namespace

static_assert(std::endian::native == std::endian::little);  // a variable begins with its low byte

std::uint64_t arguments::variable::load() const {
  std::uint64_t value = 0;
  std::memcpy(&value, address, bytes);
  return value;
}

void arguments::variable::store(std::uint64_t value) const { std::memcpy(address, &value, bytes); }

arguments& arguments::add_number(std::string_view name, variable value, std::string_view help,
                                 std::uint64_t least, std::uint64_t most) {
  const std::uint64_t unlimited = ~std::uint64_t{0} >> (64 - 8 * value.bytes);
  options_.push_back({
      .name = std::string(name),
      .takes = std::to_string(least) + ".." + (most == unlimited ? "" : std::to_string(most)),
      .help = std::string(help),
      .read = [value, least,
               most](std::string_view text) { value.store(read_number(text, least, most)); },
      .show = [value] { return std::to_string(value.load()); },
      .report = [value](json_object& line, std::string_view key) { line.add(key, value.load()); },
  });
  return *this;
}

void arguments::add_choice(std::string_view name, variable value, std::string_view help) {
  const auto choices = std::make_shared<words>();
  const auto word_of = [value, choices] {
    const auto found = std::ranges::find(*choices, value.load(), &words::value_type::second);
    return found != choices->end() ? found->first : std::string();
  };
  options_.push_back({
      .name = std::string(name),
      .takes = "",
      .help = std::string(help),
      .read =
          [value, choices](std::string_view text) {
            const auto found = std::ranges::find(*choices, text, &words::value_type::first);
            if (found == choices->end()) throw usage_error("is none of these");
            value.store(found->second);
          },
      .show = word_of,
      .report = [word_of](json_object& line, std::string_view key) { line.add(key, word_of()); },
      .choices = choices,
  });
}

void arguments::add_word(std::string_view word, std::uint64_t meaning) {
  option& last = options_.back();
  last.choices->emplace_back(word, meaning);
  last.takes.append(last.takes.empty() ? "" : "|").append(word);
}

arguments& arguments::decimal(std::string_view name, double& value, std::string_view help) {
  options_.push_back({
      .name = std::string(name),
      .takes = "NUMBER",
      .help = std::string(help),
      .read =
          [&value](std::string_view text) {
            const char* end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, value);
            if (error != std::errc() || stop != end || !std::isfinite(value) || value < 0) {
              throw usage_error("is not a number from 0 up");
            }
          },
      .show = [&value] { return value == 0 ? std::string("0") : std::to_string(value); },
      .report = [&value](json_object& line, std::string_view key) { line.add(key, value); },
  });
  return *this;
}

arguments& arguments::list(std::string_view name, std::vector<unsigned>& values,
                           std::string_view help) {
  options_.push_back({
      .name = std::string(name),
      .takes = "N,N...",
      .help = std::string(help),
      .read =
          [&values](std::string_view text) {
            values.clear();
            for (std::size_t begin = 0; begin <= text.size();) {
              const std::size_t comma = std::min(text.find(',', begin), text.size());
              const auto item = text.substr(begin, comma - begin);
              values.push_back(static_cast<unsigned>(
                  read_number(item, 0, std::numeric_limits<unsigned>::max())));
              begin = comma + 1;
            }
          },
      .show = [&values] { return joined(values); },
      .report = [&values](json_object& line,
                          std::string_view key) { line.add(key, joined(values)); },
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
