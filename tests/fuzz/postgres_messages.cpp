// SPDX-License-Identifier: Apache-2.0
// Fuzz target: bytes of a PostgreSQL server, without a connection. Messages are found alike however
// the bytes are cut, their fields stay within them, and a login is done only by a server that has
// proved itself.
#include <gyre/base/detail/base64.hpp>
#include <gyre/engines/postgres/detail/backend_message.hpp>
#include <gyre/engines/postgres/detail/login.hpp>
#include <gyre/engines/postgres/detail/read_server_message.hpp>
#include <gyre/engines/postgres/detail/row_view.hpp>
#include <gyre/engines/postgres/detail/saslprep.hpp>
#include <gyre/engines/postgres/detail/scram_client.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <tests/fuzz/fuzz.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using namespace gyre::postgres::detail;

constexpr std::size_t max_message = 4096;

bool is_within(std::span<const std::byte> part, std::string_view whole) {
  const auto* const begin = reinterpret_cast<const std::byte*>(whole.data());
  return part.empty() ||
         (part.data() >= begin && part.data() + part.size() <= begin + whole.size());
}

void check_body(const backend_message& message) {
  if (const auto row = row_view::parse(message.body)) {
    row_reader reader(*row);
    for (std::size_t index = 0; index < row->size(); ++index) {
      const field_view field = reader.next();
      require(field.is_null ||
              is_within(field.bytes,
                        {reinterpret_cast<const char*>(message.body.data()), message.body.size()}));
    }
  }
  static_cast<void>(read_server_message(message.body));
}

// The messages in `text`, and the error after them, as a text.
std::string list(std::string_view text, connection_phase phase, std::size_t cut) {
  std::string found;
  std::string_view left = text;
  std::size_t visible = std::min(cut, text.size());
  for (;;) {
    gyre::io::input input(left.substr(0, visible));
    const auto message = take_message(input, phase, max_message);
    if (!message) return found + "error " + std::to_string(static_cast<int>(message.error()));
    if (!*message) {
      if (visible == left.size()) return found + "more";
      ++visible;  // another byte has come
      continue;
    }
    require((*message)->body.size() <= max_message);
    require(is_within((*message)->body, left));
    check_body(**message);
    found.push_back(static_cast<char>((*message)->kind));
    found += std::to_string((*message)->body.size()) + ' ';
    const std::size_t size = visible - input.size();
    left.remove_prefix(size);
    visible -= size;
  }
}

void try_login(decisions& decide) {
  static const auto user = std::make_shared<credentials>("user", "pencil");
  connection_options options{.login = user};
  options.allow_md5 = decide.flip();
  options.allow_cleartext_password = decide.flip();
  const bool is_encrypted = decide.flip();
  login machine(options, std::vector<std::byte>(is_encrypted ? 32 : 0), is_encrypted);
  gyre::io::buffer output;
  bool asked = false;
  while (!decide.empty()) {
    static constexpr std::uint8_t kinds[] = {0, 3, 5, 10, 11, 12, 7};
    const std::uint8_t kind = kinds[decide.below(7)];
    std::string body("\0\0\0", 3);
    body.push_back(static_cast<char>(kind));
    if (decide.flip() && kind == 10) {
      body.append(std::string_view("SCRAM-SHA-256\0\0", 15));
    } else {
      body.append(decide.text(decide.below(64)));
    }
    try {
      machine.respond(std::as_bytes(std::span(body)), output);
    } catch (const std::system_error&) {
      return;
    }
    asked = asked || kind == 10;
    require(!machine.is_done() || !asked);  // nobody guesses the server's signature
  }
}

void try_scram(decisions& decide) {
  static credentials user("user", "pencil");
  scram_client client(user, "nonce", scram_binding::unsupported, {});
  const std::string iterations = decide.flip() ? "4096" : std::string(decide.text(6));
  std::string first = "r=nonce";
  first.append(decide.text(8)).append(",s=").append(decide.flip() ? "QSXCR+Q6sek8bf92" : "");
  first.append(decide.text(4)).append(",i=").append(iterations);
  try {
    static_cast<void>(client.final_message(first));
    client.verify(decide.rest());
    require(false);
  } catch (const std::system_error&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  switch (decide.below(4)) {
    case 0: try_login(decide); break;
    case 1: try_scram(decide); break;
    case 2: {
      const std::string_view text = decide.rest();
      const std::string prepared = saslprep(text);
      require(prepared.size() <= text.size());
      if (const auto bytes = gyre::detail::decode_base64(text)) {
        require(gyre::detail::encode_base64(std::as_bytes(std::span(*bytes))) == text);
      }
      break;
    }
    default: {
      const auto phase = decide.flip() ? connection_phase::ready : connection_phase::login;
      const std::size_t cut = decide.below(64);
      const std::string_view text = decide.rest();
      require(list(text, phase, cut) == list(text, phase, text.size()));
    }
  }
  return 0;
}
