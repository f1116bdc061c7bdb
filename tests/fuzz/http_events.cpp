// SPDX-License-Identifier: Apache-2.0
// Fuzz target: streams of server-sent events. The events do not depend on how a stream is cut,
// agree with a reader that has the whole text, and are read as they were written.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/server_sent_event.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::http::server_sent_event;
using gyre::http::server_sent_event_reader;

constexpr std::array<std::string_view, 20> pieces{
    "\n",           "\r",   "\r\n", "\n\n",  "data",    "data: ", "data:",
    "event: ",      "id: ", "id",   "retry", "retry: ", "12",     ": c",
    "\xEF\xBB\xBF", " ",    "a",    ":",     "b",       "\n\r"};

std::string describe(std::string_view type, std::string_view id, std::string_view data) {
  std::string text(type);
  return text.append("/").append(id).append("/").append(data).append(";");
}

std::string read_in_pieces(std::string_view text, std::size_t size) {
  server_sent_event_reader reader;
  std::string events;
  while (!text.empty()) {
    const std::vector<char> copy(text.begin(), text.begin() + std::min(size, text.size()));
    text.remove_prefix(copy.size());
    gyre::io::input piece(std::string_view(copy.data(), copy.size()));
    while (reader.next(piece).value()) {
      const server_sent_event& event = reader.event();
      require(event.id == reader.last_event_id());
      events += describe(event.event, *event.id, event.data);
    }
    require(piece.empty());
  }
  return events;
}

// The rules of the HTML Standard, one after another.
std::string read_by_the_book(std::string_view text) {
  std::string events;
  std::string data;
  std::string type;
  std::string id;
  std::string last_id;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (true) {
    const std::size_t end = text.find_first_of("\r\n");
    if (end == std::string_view::npos) return events;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
    if (line.empty()) {
      last_id = id;
      if (!data.empty()) {
        events += describe(type.empty() ? "message" : type, last_id,
                           std::string_view(data).substr(0, data.size() - 1));
      }
      data.clear();
      type.clear();
      continue;
    }
    const std::size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    std::string_view value = colon == line.npos ? "" : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (name == "data") data.append(value).append("\n");
    if (name == "event") type = value;
    if (name == "id" && value.find('\0') == value.npos) id = value;
  }
}

void check_stream(decisions& decide) {
  const std::size_t size = 1 + decide.below(64);
  std::string text;
  while (!decide.empty() && text.size() < 4096) {
    if (decide.below(16) == 0) {
      text += decide.text(1 + decide.below(4));
    } else {
      text += pieces[decide.below(pieces.size())];
    }
  }
  const std::string expected = read_by_the_book(text);
  require(read_in_pieces(text, text.size() + 1) == expected);
  require(read_in_pieces(text, size) == expected && read_in_pieces(text, 1) == expected);
}

void check_round_trip(decisions& decide) {
  std::string text;
  std::string expected;
  while (!decide.empty()) {
    std::string data(decide.text(decide.below(16)));
    std::erase(data, '\r');
    std::string type(decide.text(decide.below(4)));
    std::erase_if(type, [](char each) { return each == '\r' || each == '\n'; });
    const std::string id(1, static_cast<char>('a' + decide.below(26)));
    gyre::http::append_event(text, {.data = data, .event = type, .id = id});
    if (decide.flip()) gyre::http::append_comment(text, data);
    if (data.empty() && type.empty()) continue;
    expected += describe(type.empty() ? "message" : type, id, data);
  }
  require(read_in_pieces(text, 7) == expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  if (decide.flip()) {
    check_stream(decide);
  } else {
    check_round_trip(decide);
  }
  return 0;
}
