// SPDX-License-Identifier: Apache-2.0
// Fuzz target: bodies of multipart/form-data. The parts do not depend on how a body is cut, and the
// reader reads every body that the writer makes.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/multipart.hpp>
#include <gyre/http/multipart_writer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::http::multipart_event;
using gyre::http::multipart_reader;

constexpr gyre::http::multipart_limits limits{
    .max_parts = 8, .max_head = 256, .max_preamble = 32, .max_epilogue = 32};

constexpr std::array<std::string_view, 25> pieces{
    "--b\r\n",
    " ",
    "\r\n--b\r\n",
    "\r\n--b--",
    "--b--\r\n",
    "\r\n",
    "\r",
    "\n",
    "-",
    "--",
    "b",
    "x",
    "Content-Disposition: form-data",
    "; name=a",
    "; name=\"",
    "\"",
    "; filename",
    "=",
    "\\",
    "\r\n\r\ndata",
    "%22",
    "Content-Type: a/b\r\n",
    ":",
    "\r\n--",
    "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n"};

std::string describe(const std::string& name, const std::string& file_name,
                     std::string_view content_type) {
  return '[' + name + '|' + file_name + '|' + std::string(content_type) + "]=";
}

struct body_reader {
  multipart_reader reader{"b", limits};
  std::string parts = {};
  std::error_code error = {};
  bool in_part = false;

  void feed(std::string_view text) {
    const std::vector<char> copy(text.begin(), text.end());
    gyre::io::input piece(std::string_view(copy.data(), copy.size()));
    while (!error) {
      const auto event = reader.next(piece);
      if (!event) {
        error = event.error();
        return;
      }
      switch (event->kind) {
        case multipart_event::need_more: require(piece.empty()); return;
        case multipart_event::part:
          require(!in_part);
          in_part = true;
          parts += describe(reader.part().name, reader.part().file_name.value_or(""),
                            reader.part().content_type);
          break;
        case multipart_event::data:
          require(in_part && !event->bytes.empty());
          parts += gyre::io::input(event->bytes).text();
          break;
        case multipart_event::part_end:
          require(in_part);
          in_part = false;
          parts += ';';
          break;
        case multipart_event::end:
          require(!in_part);
          parts += '.';
          break;
      }
    }
  }
  std::string finish() {
    if (!error) error = reader.finish();
    return error ? parts + '!' + error.message() : parts;
  }
};

std::string read_cut_anywhere(std::string_view body, std::size_t cut) {
  body_reader whole;
  whole.feed(body);
  body_reader halves;
  halves.feed(body.substr(0, cut % (body.size() + 1)));
  halves.feed(body.substr(cut % (body.size() + 1)));
  body_reader single;
  for (const char& each : body) single.feed({&each, 1});
  const std::string result = whole.finish();
  require(halves.finish() == result && single.finish() == result);
  return result;
}

void check_text(decisions& decide, std::size_t cut) {
  std::string body = decide.flip() ? "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n" : "";
  while (!decide.empty() && body.size() < 4096) {
    if (decide.below(16) == 0) {
      body += decide.text(1 + decide.below(4));
    } else {
      body += pieces[decide.below(pieces.size())];
    }
  }
  read_cut_anywhere(body, cut);
}

// Names without the bytes that the writer refuses or that do not come back.
std::string as_name(std::string_view text) {
  std::string name;
  for (const char each : text) {
    const bool is_control =
        (each >= 0 && each < ' ' && each != '\r' && each != '\n') || each == 127;
    if (!is_control && each != '%') name += each;
  }
  return name;
}

void check_round_trip(decisions& decide, std::size_t cut) {
  gyre::http::multipart_writer writer("b");
  std::string expected;
  for (std::size_t parts = decide.below(limits.max_parts); parts != 0; --parts) {
    const std::string name = as_name(decide.text(decide.below(16)));
    std::string data(decide.text(decide.below(32)));
    std::erase(data, 'b');
    if (decide.flip()) {
      writer.add(name, data);
      expected += describe(name, "", "text/plain") + data + ';';
    } else {
      writer.add_file(name, name, "a/b", std::string_view(data));
      expected += describe(name, name, "a/b") + data + ';';
    }
  }
  require(read_cut_anywhere(writer.finish().text(), cut) == expected + '.');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  const std::size_t cut = decide.below(512);
  if (decide.flip()) {
    check_text(decide, cut);
  } else {
    check_round_trip(decide, cut);
  }
  return 0;
}
