// SPDX-License-Identifier: Apache-2.0
// Tests of the frames of WebSocket, without a socket. Each stream of bytes is fed whole, and one
// byte at a time; the results must be equal.
#include <gyre/http/detail/websocket_session.hpp>

#include <gyre/http/websocket_test_support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace http_websocket_session_test {
namespace {

using gyre::http::close_code;
using gyre::http::websocket_compression;
using gyre::http::websocket_errc;
using gyre::http::websocket_kind;
using gyre::http::websocket_limits;
using gyre::http::detail::deflate_agreement;
using gyre::http::detail::receiving;
using gyre::http::detail::settings_pointer;
using gyre::http::detail::websocket_role;
using gyre::http::detail::websocket_session;
using gyre::http::test::close_payload;
using gyre::http::test::fin;
using gyre::http::test::frame;
using event = websocket_session::event;
using namespace std::string_literals;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string text(std::string_view payload) { return frame(fin | 1, payload); }
std::string binary(std::string_view payload) { return frame(fin | 2, payload); }
std::string ping(std::string_view payload) { return frame(fin | 9, payload); }
std::string close(std::string_view payload) { return frame(fin | 8, payload); }
std::string close(unsigned code, std::string_view reason = "") {
  return close(close_payload(code, reason));
}

struct setting {
  websocket_role role = websocket_role::server;
  websocket_limits limits = {};
  std::optional<deflate_agreement> deflate = {};
  receiving mode = receiving::messages;
};

settings_pointer settings_of(const websocket_limits& limits) {
  return settings_pointer::share({.limits = limits});
}

// A result holds the events of a session, and its output.
struct result {
  std::string events;
  std::string output;
  std::size_t consumed = 0;  // bytes up to a failure
};

result run_in_pieces(std::string_view input, std::size_t size, const setting& setup) {
  websocket_session session(setup.role, settings_of(setup.limits), {}, {.deflate = setup.deflate});
  result found;
  gyre::io::buffer output;
  bool was_last = true;
  while (!input.empty()) {
    const std::string piece(input.substr(0, size));
    input.remove_prefix(piece.size());
    auto rest = bytes_of(piece);
    for (bool wants_input = false; !wants_input;) {
      switch (session.next(rest, setup.mode)) {
        case event::wants_input: wants_input = true; break;
        case event::message: {
          const auto data = session.data();
          if (was_last) found.events += data.is_text() ? "text:" : "binary:";
          found.events += data.text();
          if (data.is_last) found.events += ';';
          was_last = data.is_last;
          break;
        }
        case event::closed:
          found.events += "closed " + std::to_string(static_cast<int>(*session.received_close())) +
                          ':' + std::string(session.received_reason());
          input = {};
          wants_input = true;
          break;
        case event::failed:
          found.events += "failed " + std::to_string(static_cast<int>(session.error()));
          input = {};
          wants_input = true;
          break;
      }
    }
    found.consumed += piece.size();
    if (session.has_control_output()) session.append_control(output);
  }
  found.output = output.text();
  return found;
}

result run(std::string_view input, const setting& setup = {}) {
  result whole = run_in_pieces(input, input.size(), setup);
  result by_bytes = run_in_pieces(input, 1, setup);
  EXPECT_EQ(whole.events, by_bytes.events);
  // A client masks each frame by another key.
  EXPECT_TRUE(whole.output == by_bytes.output || setup.role == websocket_role::client);
  return by_bytes;
}
std::string events_of(std::string_view input, const setting& setup = {}) {
  return run(input, setup).events;
}
std::string failure(websocket_errc code) {
  return "failed " + std::to_string(static_cast<int>(code));
}
std::string unmasked_close(close_code code, std::string_view reason = "") {
  return frame(fin | 8, close_payload(static_cast<unsigned>(code), reason), false);
}

TEST(WebsocketSession, ReceivesTheExamplesOfTheRfc) {
  EXPECT_EQ(events_of("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "text:Hello;");
  EXPECT_EQ(events_of("\x81\x05Hello", {.role = websocket_role::client}), "text:Hello;");
  EXPECT_EQ(events_of("\x01\x03Hel\x80\x02lo"s, {.role = websocket_role::client}), "text:Hello;");
}

TEST(WebsocketSession, ReceivesEveryLength) {
  for (const std::size_t size :
       std::vector<std::size_t>{0, 1, 3, 4, 125, 126, 127, 128, 1000, 65535, 65536, 70000}) {
    const std::string payload(size, 'x');
    EXPECT_EQ(events_of(text(payload) + binary(payload)),
              "text:" + payload + ";binary:" + payload + ";");
    EXPECT_EQ(events_of(frame(fin | 1, payload, false), {.role = websocket_role::client}),
              "text:" + payload + ";");
  }
}

TEST(WebsocketSession, SendsWhatTheOtherRoleReceives) {
  std::mt19937 random(7);
  for (const auto sender : {websocket_role::server, websocket_role::client}) {
    const auto reader =
        sender == websocket_role::server ? websocket_role::client : websocket_role::server;
    for (const std::size_t size : std::vector<std::size_t>{0, 1, 125, 126, 65535, 65536, 200'000}) {
      websocket_session session(sender, settings_of({}), {}, {});
      std::string payload(size, ' ');
      for (char& each : payload) each = static_cast<char>(random());
      gyre::io::buffer output;
      session.begin_message(websocket_kind::binary, size);
      auto rest = bytes_of(payload);
      while (!session.append_data(rest, output)) {
      }
      EXPECT_EQ(output.size(), size + (size < 126 ? 2 : (size < 65536 ? 4 : 10)) +
                                   (sender == websocket_role::client ? 4 : 0));
      EXPECT_EQ(run_in_pieces(output.text(), 4096, {.role = reader}).events,
                "binary:" + payload + ";");
    }
  }
}

TEST(WebsocketSession, MasksEachFrameByAnotherKey) {
  websocket_session session(websocket_role::client, settings_of({}), {}, {});
  std::vector<std::string> masks;
  for (int i = 0; i < 40; ++i) {
    gyre::io::buffer output;
    session.begin_message(websocket_kind::binary, 0);
    auto rest = bytes_of("");
    EXPECT_TRUE(session.append_data(rest, output));
    masks.emplace_back(output.text().substr(2));
  }
  std::ranges::sort(masks);
  EXPECT_EQ(std::ranges::adjacent_find(masks), masks.end());
}

TEST(WebsocketSession, AnswersPings) {
  for (const std::size_t size : std::vector<std::size_t>{0, 1, 124, 125}) {
    const std::string payload(size, '\xff');
    EXPECT_EQ(run(ping(payload)).output, frame(fin | 10, payload, false));
  }
  EXPECT_EQ(events_of(ping(std::string(126, 'x'))), failure(websocket_errc::bad_frame));
  EXPECT_EQ(run(frame(fin | 10, "unasked") + text("a")).events, "text:a;");
  std::string pings;
  std::string pongs;
  for (int i = 0; i < 10; ++i) {
    pings += ping("payload " + std::to_string(i));
    pongs += frame(fin | 10, "payload " + std::to_string(i), false);
  }
  EXPECT_EQ(run(pings).output, pongs);
}

TEST(WebsocketSession, AnswersOfManyPingsOnlySomeAndTheNewest) {
  std::string pings;
  for (int i = 0; i < 10'000; ++i) pings += ping(std::to_string(i) + std::string(100, 'x'));
  const std::string output = run_in_pieces(pings, pings.size(), {}).output;
  EXPECT_LT(output.size(), 2500u);
  EXPECT_TRUE(output.ends_with("9999" + std::string(100, 'x')));
}

TEST(WebsocketSession, RefusesReservedBits) {
  for (const unsigned bits : std::vector<unsigned>{0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70}) {
    for (const unsigned opcode : std::vector<unsigned>{1, 2, 8, 9, 10}) {
      EXPECT_EQ(events_of(text("ok") + frame(fin | bits | opcode, "")),
                "text:ok;" + failure(websocket_errc::bad_frame));
    }
  }
  const setting setup{.deflate = deflate_agreement{}};
  for (const unsigned first : std::vector<unsigned>{0xe1, 0xd1, 0xc8, 0xc9, 0xca}) {
    EXPECT_EQ(events_of(frame(first, ""), setup), failure(websocket_errc::bad_frame));
  }
  EXPECT_EQ(events_of(frame(1, "a") + frame(fin | 0x40, ""), setup),
            failure(websocket_errc::bad_frame));
}

TEST(WebsocketSession, RefusesReservedOpcodes) {
  for (const unsigned opcode : std::vector<unsigned>{3, 4, 5, 6, 7, 11, 12, 13, 14, 15}) {
    for (const std::string_view payload : {"", "some"}) {
      EXPECT_EQ(events_of(text("ok") + frame(fin | opcode, payload)),
                "text:ok;" + failure(websocket_errc::bad_frame));
    }
  }
}

TEST(WebsocketSession, RefusesAWrongMask) {
  EXPECT_EQ(events_of(frame(fin | 1, "a", false)), failure(websocket_errc::bad_frame));
  EXPECT_EQ(events_of(text("a"), {.role = websocket_role::client}),
            failure(websocket_errc::bad_frame));
  const std::string reason = gyre::http::make_error_code(websocket_errc::bad_frame).message();
  EXPECT_EQ(run(frame(fin | 1, "a", false)).output,
            unmasked_close(close_code::protocol_error, reason));
}

TEST(WebsocketSession, RefusesLengthsThatAreNotTheShortest) {
  EXPECT_EQ(events_of("\x82\xfe\x00\x7d\0\0\0\0"s), failure(websocket_errc::bad_frame));
  EXPECT_EQ(events_of("\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0"s), failure(websocket_errc::bad_frame));
  EXPECT_EQ(events_of("\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0"s), failure(websocket_errc::bad_frame));
  EXPECT_EQ(events_of("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"s),
            failure(websocket_errc::too_large));
}

TEST(WebsocketSession, JoinsFragments) {
  EXPECT_EQ(events_of(frame(1, "half ") + frame(fin, "whole")), "text:half whole;");
  EXPECT_EQ(events_of(frame(2, "") + frame(0, "") + frame(fin, "")), "binary:;");
  const result found =
      run(frame(1, "a") + ping("1") + frame(0, "b") + ping("2") + frame(fin, "c") + text("d"));
  EXPECT_EQ(found.events, "text:abc;text:d;");
  EXPECT_EQ(found.output, frame(fin | 10, "1", false) + frame(fin | 10, "2", false));
}

TEST(WebsocketSession, RefusesFragmentsInAWrongOrder) {
  const std::string wrong = failure(websocket_errc::bad_frame);
  EXPECT_EQ(events_of(frame(fin, "no message")), wrong);
  EXPECT_EQ(events_of(frame(0, "no message")), wrong);
  EXPECT_EQ(events_of(frame(1, "a") + text("b")), wrong);
  EXPECT_EQ(events_of(frame(1, "a") + frame(2, "b")), wrong);
  EXPECT_EQ(events_of(text("a") + frame(fin, "b")), "text:a;" + wrong);
  EXPECT_EQ(events_of(frame(9, "a ping in fragments")), wrong);
  EXPECT_EQ(events_of(frame(8, "")), wrong);
}

TEST(WebsocketSession, ReceivesPiecesAsTheyCome) {
  const setting setup{.limits = {.message = 4}, .mode = receiving::pieces};
  EXPECT_EQ(
      events_of(frame(1, "half ") + ping("") + frame(fin, "whole") + binary("") + text("x"), setup),
      "text:half whole;binary:;text:x;");
  websocket_session session(websocket_role::server, settings_of(setup.limits), {}, {});
  const std::string longer = binary(std::string(100'000, 'x'));
  auto rest = bytes_of(longer);
  EXPECT_EQ(session.next(rest, receiving::pieces), event::message);
  EXPECT_EQ(session.data().bytes.size(), 65536u);
  EXPECT_FALSE(session.data().is_last);
  EXPECT_EQ(session.next(rest, receiving::pieces), event::message);
  EXPECT_EQ(session.data().bytes.size(), 100'000u - 65536u);
  EXPECT_TRUE(session.data().is_last);
  EXPECT_EQ(session.next(rest, receiving::pieces), event::wants_input);
}

TEST(WebsocketSession, LimitsFramesAndMessages) {
  const setting setup{.limits = {.message = 10, .frame = 8}};
  const std::string wrong = failure(websocket_errc::too_large);
  EXPECT_EQ(events_of(text("12345678"), setup), "text:12345678;");
  EXPECT_EQ(events_of(frame(1, "12345678") + frame(fin, "90"), setup), "text:1234567890;");
  EXPECT_EQ(events_of(frame(1, "12345678") + frame(fin, "90a"), setup), wrong);
  EXPECT_EQ(events_of(text("123456789"), setup), wrong);
  // At the header, before a byte of the payload has come.
  EXPECT_EQ(events_of(binary("123456789").substr(0, 6), setup), wrong);
  EXPECT_EQ(events_of(frame(1, "12345678") + frame(0, "90a").substr(0, 6), setup), wrong);
}

// The memory of an unfinished message is at most twice its bytes, and a page.
TEST(WebsocketSession, HoldsNoMoreForTinyFragments) {
  const setting setup{.limits = {.message = 100'000}};
  websocket_session session(setup.role, settings_of(setup.limits), {}, {});
  std::string fragments = frame(2, "x");
  for (int i = 1; i < 100'000; ++i) fragments += frame(0, "x");
  for (int i = 0; i < 100'000; ++i) fragments += frame(0, "");
  auto rest = bytes_of(fragments);
  EXPECT_EQ(session.next(rest, receiving::messages), event::wants_input);
  const std::string end = frame(fin, "");
  rest = bytes_of(end);
  EXPECT_EQ(session.next(rest, receiving::messages), event::message);
  EXPECT_EQ(session.data().bytes.size(), 100'000u);
}

// --- UTF-8 ---

TEST(WebsocketSession, AcceptsTextsInUtf8) {
  for (const std::string_view valid :
       {"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf",
        "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80"}) {
    EXPECT_EQ(events_of(text(valid)), "text:" + std::string(valid) + ";");
    for (std::size_t cut = 0; cut <= valid.size(); ++cut) {  // also within characters
      EXPECT_EQ(
          events_of(frame(1, valid.substr(0, cut)) + ping("") + frame(fin, valid.substr(cut))),
          "text:" + std::string(valid) + ";");
    }
  }
}

TEST(WebsocketSession, RefusesOtherTextsAtTheFirstWrongByte) {
  const std::string wrong = failure(websocket_errc::bad_utf8);
  struct bad_text {
    std::string_view bytes;
    std::size_t wrong_at;  // the position of the first byte that no UTF-8 has there
  };
  for (const auto& [bytes, wrong_at] :
       std::initializer_list<bad_text>{{"\x80", 0},
                                       {"\xbf", 0},
                                       {"\xc0\xaf", 0},
                                       {"\xc1\xbf", 0},
                                       {"\xe0\x80\xaf", 1},
                                       {"\xe0\x9f\xbf", 1},
                                       {"\xf0\x80\x80\xaf", 1},
                                       {"\xf0\x8f\xbf\xbf", 1},
                                       {"\xed\xa0\x80", 1},
                                       {"\xed\xbf\xbf", 1},
                                       {"\xf4\x90\x80\x80", 1},
                                       {"\xf5\x80\x80\x80", 0},
                                       {"\xf8\x88\x80\x80\x80", 0},
                                       {"\xfe", 0},
                                       {"\xff", 0},
                                       {"\xc2\x20", 1},
                                       {"\xe1\x80\x20", 2},
                                       {"\xf1\x80\x80\x20", 3},
                                       {"\xce\xba\xed\xa0\x80 later", 3}}) {
    const std::string payload = std::string(bytes) + std::string(40, 'x');
    EXPECT_EQ(events_of(text(payload)), wrong) << testing::PrintToString(bytes);
    // In a frame whose rest has not come, and in one whose length is far off.
    constexpr std::size_t header = 6;
    EXPECT_EQ(run(text(payload)).consumed, header + wrong_at + 1);
  }
  for (const std::string_view cut : {"\xc2", "\xe1\x80", "\xf1\x80\x80", "a\xce"}) {
    EXPECT_EQ(events_of(text(cut)), wrong);
    EXPECT_EQ(events_of(frame(1, cut) + frame(fin, "")), wrong);
    EXPECT_EQ(events_of(binary(cut)), "binary:" + std::string(cut) + ";");
  }
  EXPECT_EQ(run(text("\xff")).output,
            unmasked_close(close_code::invalid_data,
                           gyre::http::make_error_code(websocket_errc::bad_utf8).message()));
}

// --- Close ---

TEST(WebsocketSession, RepliesToAClose) {
  const result empty = run(close("") + text("dropped"));
  EXPECT_EQ(empty.events, "closed 1005:");
  EXPECT_EQ(empty.output, frame(fin | 8, "", false));
  for (const unsigned code :
       std::vector<unsigned>{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014,
                             3000, 3999, 4000, 4999}) {
    const result found = run(close(code, "b\xce\xb1"));
    EXPECT_EQ(found.events, "closed " + std::to_string(code) + ":b\xce\xb1");
    EXPECT_EQ(found.output, unmasked_close(static_cast<close_code>(code)));
  }
  EXPECT_EQ(events_of(close(1000, std::string(123, 'x'))), "closed 1000:" + std::string(123, 'x'));
  EXPECT_EQ(run(frame(1, "a") + close(1000)).events, "closed 1000:");
}

TEST(WebsocketSession, RefusesAWrongClose) {
  EXPECT_EQ(events_of(close("x")), failure(websocket_errc::bad_close));
  for (const unsigned code :
       std::vector<unsigned>{0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535}) {
    EXPECT_EQ(events_of(close(code)), failure(websocket_errc::bad_close)) << code;
  }
  EXPECT_EQ(events_of(close(1000, std::string(124, 'x'))), failure(websocket_errc::bad_frame));
  EXPECT_EQ(events_of(close(1000, "\xce")), failure(websocket_errc::bad_utf8));
}

TEST(WebsocketSession, SendsOneCloseAndNothingAfterIt) {
  websocket_session session(websocket_role::server, settings_of({}), {}, {});
  session.send_close(close_code::going_away, "bye");
  session.send_close(close_code::normal, "again");
  const std::string input = ping("late") + text("late") + close(1000);
  auto rest = bytes_of(input);
  EXPECT_EQ(session.next(rest, receiving::messages), event::message);
  EXPECT_EQ(session.next(rest, receiving::messages), event::closed);
  session.send_ping();
  gyre::io::buffer output;
  session.append_control(output);
  EXPECT_EQ(output.text(), unmasked_close(close_code::going_away, "bye"));
  EXPECT_FALSE(session.has_control_output());
}

// --- permessage-deflate ---

setting compressed(deflate_agreement agreement = {}) { return {.deflate = agreement}; }

TEST(WebsocketSession, UnpacksTheExamplesOfTheRfc) {
  const std::string hello("\xf2\x48\xcd\xc9\xc9\x07\x00", 7);
  const std::string with_context("\xf2\x00\x11\x00\x00", 5);
  const std::string stored("\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", 11);
  const std::string last_block("\xf3\x48\xcd\xc9\xc9\x07\x00\x00", 8);
  const std::string two_blocks("\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", 13);
  const auto packed = [](std::string_view payload) { return frame(0xc1, payload); };
  EXPECT_EQ(events_of(packed(hello) + packed(with_context), compressed()),
            "text:Hello;text:Hello;");
  EXPECT_EQ(events_of(frame(0x41, hello.substr(0, 3)) + ping("") + frame(fin, hello.substr(3)),
                      compressed()),
            "text:Hello;");
  EXPECT_EQ(events_of(packed(stored) + packed(two_blocks), compressed()), "text:Hello;text:Hello;");
  // A message that refers back to one with a block that is marked as the last.
  EXPECT_EQ(events_of(packed(last_block) + packed(with_context), compressed()),
            "text:Hello;text:Hello;");
  EXPECT_EQ(events_of(text("Hello") + packed(hello), compressed()), "text:Hello;text:Hello;");
  EXPECT_EQ(
      events_of(packed(hello) + packed(with_context), compressed({.keeps_peer_context = false})),
      "text:Hello;" + failure(websocket_errc::bad_compression));
}

// Texts that repeat what stood up to `distance` before, and random bytes.
std::vector<std::string> sample_messages(std::mt19937& random) {
  std::vector<std::string> messages{"", "a", std::string(200'000, 'z')};
  std::string words;
  while (words.size() < 150'000) words += "word " + std::to_string(random() % 3000) + " ";
  std::string noise(100'000, ' ');
  for (char& each : noise) each = static_cast<char>(random());
  for (const std::size_t size : std::vector<std::size_t>{10, 64, 300, 5000, 70'000}) {
    messages.push_back(words.substr(0, size));
    messages.push_back(noise.substr(0, size) + words.substr(0, size) + noise.substr(0, size));
  }
  messages.push_back(words);
  messages.push_back(noise);
  return messages;
}

TEST(WebsocketSession, PacksAndUnpacksWithEveryWindowAndContext) {
  std::mt19937 random(11);
  const std::vector<std::string> messages = sample_messages(random);
  for (unsigned bits = 8; bits <= 15; ++bits) {
    for (const bool keeps : {true, false}) {
      for (const int level : {1, 6, 9}) {
        const auto sender = bits % 2 == 0 ? websocket_role::server : websocket_role::client;
        const auto reader =
            sender == websocket_role::server ? websocket_role::client : websocket_role::server;
        const deflate_agreement of_sender{.window_bits = bits, .keeps_context = keeps};
        const deflate_agreement of_reader{.peer_window_bits = bits, .keeps_peer_context = keeps};
        websocket_session packing(sender, {}, {.level = level, .min_size = 0},
                                  {.deflate = of_sender});
        websocket_session unpacking(reader, settings_of({}), {}, {.deflate = of_reader});
        for (const std::string& each : messages) {
          gyre::io::buffer output;
          packing.begin_message(websocket_kind::binary, each.size());
          auto rest = bytes_of(each);
          while (!packing.append_data(rest, output)) {
          }
          auto input = output.bytes();
          std::string received;
          for (bool is_last = false; !is_last;) {
            const receiving mode = keeps ? receiving::messages : receiving::pieces;
            ASSERT_EQ(unpacking.next(input, mode), event::message) << bits;
            received += text_of(unpacking.data().bytes);
            is_last = unpacking.data().is_last;
          }
          ASSERT_TRUE(input.empty());
          ASSERT_TRUE(received == each) << bits << ' ' << each.size();
        }
      }
    }
  }
}

std::string packed_zeros(std::size_t size) {
  websocket_session packing(websocket_role::client, {}, {.level = 9},
                            {.deflate = deflate_agreement{}});
  gyre::io::buffer output;
  const std::string zeros(size, '\0');
  packing.begin_message(websocket_kind::binary, size);
  auto rest = bytes_of(zeros);
  while (!packing.append_data(rest, output)) {
  }
  return std::string(output.text());
}

TEST(WebsocketSession, StopsUnpackingAtTheLimit) {
  const std::string bomb = packed_zeros(std::size_t{64} << 20);
  EXPECT_LT(bomb.size(), 100'000u);
  setting setup = compressed();
  setup.limits.message = 100'000;
  EXPECT_EQ(events_of(bomb, setup), failure(websocket_errc::too_large));
  EXPECT_LT(run(bomb, setup).consumed, 1000u);
  setup.mode = receiving::pieces;
  websocket_session session(setup.role, settings_of(setup.limits), {}, {.deflate = setup.deflate});
  auto rest = bytes_of(bomb);
  std::size_t size = 0;
  do {
    ASSERT_EQ(session.next(rest, receiving::pieces), event::message);
    ASSERT_LE(session.data().bytes.size(), 65536u);
    size += session.data().bytes.size();
  } while (!session.data().is_last);
  EXPECT_EQ(size, std::size_t{64} << 20);
  setup.mode = receiving::messages;
  setup.limits.message = 5;
  const std::string hello("\xf2\x48\xcd\xc9\xc9\x07\x00", 7);
  EXPECT_EQ(events_of(frame(0xc1, hello), setup), "text:Hello;");
  setup.limits.message = 4;
  EXPECT_EQ(events_of(frame(0xc1, hello), setup), failure(websocket_errc::too_large));
}

TEST(WebsocketSession, RefusesMalformedCompression) {
  const std::string wrong = failure(websocket_errc::bad_compression);
  EXPECT_EQ(events_of(frame(0xc2, "\xff\xff\xff"), compressed()), wrong);
  EXPECT_EQ(events_of(frame(0xc2, "\x06"), compressed()), wrong);
  const std::string hello("\xf2\x48\xcd\xc9\xc9\x07\x00", 7);
  EXPECT_EQ(events_of(frame(0xc1, hello.substr(0, 4)), compressed()), wrong);
  EXPECT_EQ(events_of(frame(0xc1, "\xf2\x00\x11\x00\x00"s), compressed()), wrong);
  // Text that unpacks to something else than UTF-8.
  const std::string stored("\x00\x02\x00\xfd\xff\xc3\x28\x00", 8);
  EXPECT_EQ(events_of(frame(0xc1, stored), compressed()), failure(websocket_errc::bad_utf8));
}

// Sockets without contexts leave their compressors to each other, but not within a message.
TEST(WebsocketSession, SocketsWithoutContextsPackAndUnpackInTurns) {
  struct pair_of_sessions {
    explicit pair_of_sessions(unsigned bits)
        : packing(websocket_role::server, {}, {.min_size = 0},
                  {.deflate = deflate_agreement{.window_bits = bits, .keeps_context = false}}),
          unpacking(websocket_role::client, settings_of({}), {},
                    {.deflate = deflate_agreement{.peer_window_bits = bits,
                                                  .keeps_peer_context = false}}) {}
    websocket_session packing;
    websocket_session unpacking;
    std::span<const std::byte> rest;
    gyre::io::buffer output;
    bool is_complete = false;
  };
  std::mt19937 random(5);
  std::string noise(200'000, ' ');
  for (char& each : noise) each = static_cast<char>('a' + random() % 16);
  std::array<pair_of_sessions, 4> pairs{pair_of_sessions(15), pair_of_sessions(15),
                                        pair_of_sessions(9), pair_of_sessions(15)};
  for (int round = 0; round < 3; ++round) {
    for (pair_of_sessions& each : pairs) {
      each.rest = bytes_of(noise);
      each.packing.begin_message(websocket_kind::binary, noise.size());
    }
    int steps = 0;
    for (std::size_t complete = 0; complete < pairs.size(); ++steps) {
      for (pair_of_sessions& each : pairs) {
        if (each.is_complete) continue;
        each.is_complete = each.packing.append_data(each.rest, each.output);
        complete += each.is_complete ? 1 : 0;
      }
    }
    EXPECT_GT(steps, 1);
    // Each socket unpacks a part, while the others are within a message.
    std::array<std::string, 4> unpacked;
    for (std::size_t complete = 0; complete < pairs.size();) {
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        pair_of_sessions& each = pairs[i];
        if (!each.is_complete) continue;
        auto input = each.output.bytes();
        const std::size_t size = input.size();
        ASSERT_EQ(each.unpacking.next(input, receiving::pieces), event::message);
        unpacked[i] += each.unpacking.data().text();
        each.output.consume(size - input.size());
        if (!each.unpacking.data().is_last) continue;
        each.is_complete = false;
        ++complete;
      }
    }
    for (const std::string& each : unpacked) ASSERT_TRUE(each == noise);
  }
}

// --- The parts ---

TEST(CopyMasked, EqualsTheDefinition) {
  std::mt19937 random(3);
  const gyre::http::detail::websocket_mask mask{std::byte{1}, std::byte{0x80}, std::byte{0xff},
                                                std::byte{0x37}};
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> source(random() % 200);
    for (std::byte& each : source) each = static_cast<std::byte>(random());
    const std::uint64_t phase = random();
    std::vector<std::byte> expected = source;
    for (std::size_t j = 0; j < source.size(); ++j) expected[j] ^= mask[(phase + j) % 4];
    std::vector<std::byte> target(source.size());
    gyre::http::detail::copy_masked(source, target.data(), mask, phase);
    ASSERT_EQ(target, expected);
    gyre::http::detail::copy_masked(source, source.data(), mask, phase);
    ASSERT_EQ(source, expected);
  }
}

// Whether the text is UTF-8, by the table of RFC 3629.
bool is_utf8_by_table(std::string_view text) {
  struct row {
    unsigned lead_low, lead_high, second_low, second_high, size;
  };
  constexpr std::array<row, 8> rows{{{0xc2, 0xdf, 0x80, 0xbf, 2},
                                     {0xe0, 0xe0, 0xa0, 0xbf, 3},
                                     {0xe1, 0xec, 0x80, 0xbf, 3},
                                     {0xed, 0xed, 0x80, 0x9f, 3},
                                     {0xee, 0xef, 0x80, 0xbf, 3},
                                     {0xf0, 0xf0, 0x90, 0xbf, 4},
                                     {0xf1, 0xf3, 0x80, 0xbf, 4},
                                     {0xf4, 0xf4, 0x80, 0x8f, 4}}};
  while (!text.empty()) {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    std::size_t size = 1;
    if (at(0) >= 0x80) {
      const auto* const found = std::ranges::find_if(
          rows, [&](const row& each) { return at(0) >= each.lead_low && at(0) <= each.lead_high; });
      if (found == rows.end() || text.size() < found->size) return false;
      size = found->size;
      if (at(1) < found->second_low || at(1) > found->second_high) return false;
      for (std::size_t i = 2; i < size; ++i) {
        if (at(i) < 0x80 || at(i) > 0xbf) return false;
      }
    }
    text.remove_prefix(size);
  }
  return true;
}

TEST(Utf8Validator, AgreesWithTheTableForAllShortTexts) {
  for (const std::size_t padding : std::vector<std::size_t>{0, 40}) {
    for (unsigned number = 0; number < 0x10000; ++number) {
      for (const std::string_view end : {"", "\x80", "\xbf\xbf", "x"}) {
        std::string text(padding, 'a');
        text += static_cast<char>(number >> 8);
        text += static_cast<char>(number);
        text += end;
        text.append(padding, 'b');
        ASSERT_EQ(gyre::http::detail::is_utf8(bytes_of(text)), is_utf8_by_table(text)) << number;
      }
    }
  }
}

TEST(Utf8Validator, AgreesWithTheTableHoweverATextIsCut) {
  std::mt19937 random(5);
  constexpr std::array<std::string_view, 12> parts{"a",
                                                   "plain ASCII of thirty-two bytes. ",
                                                   "\xce\xba",
                                                   "\xe1\xbd\xb9",
                                                   "\xf0\x9f\x98\x80",
                                                   "\xed\x9f\xbf",
                                                   "\xf4\x8f\xbf\xbf",
                                                   "\xc3",
                                                   "\x80",
                                                   "\xed\xa0\x80",
                                                   "\xf0\x80",
                                                   "\xff"};
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    const std::size_t valid_parts = random() % 4 == 0 ? parts.size() : 7;
    for (std::size_t count = random() % 8; count != 0; --count)
      text += parts[random() % valid_parts];
    gyre::http::detail::utf8_validator validator;
    bool is_valid = true;
    for (std::size_t position = 0; position < text.size() && is_valid;) {
      const std::size_t size = 1 + random() % 40;
      is_valid = validator.feed(bytes_of(std::string_view(text).substr(position, size)));
      position += size;
    }
    ASSERT_EQ(is_valid && validator.is_complete(), is_utf8_by_table(text))
        << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace http_websocket_session_test
