// SPDX-License-Identifier: Apache-2.0
// Fuzz target: bytes of a hostile client for a TLS server. They are made up, or those of a real
// client that were changed on their way. The server fails or waits; it gives no plain bytes that
// nobody has encrypted, and answers with a bounded number of bytes.
#include <gyre/tls/transport.hpp>

#include <gyre/io/buffer.hpp>
#include <gyre/tls/error.hpp>
#include <tests/fuzz/fuzz.hpp>
#include <tests/support/layer_steps.hpp>
#include <tests/support/tls_certificates.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace {

using gyre::io::buffer;
using gyre::net::layer;
using gyre::test::read_all;
using gyre::test::shake_hands;
using gyre::test::write;

constexpr std::size_t most_answered = std::size_t{256} << 10;

struct both_sides {
  both_sides() {
    gyre::test::test_authority authority;
    const gyre::test::issued own = authority.issue();
    server = gyre::tls::server_transport(gyre::tls::tls_context::server(
        {.certificates = {{.chain = gyre::tls::pem::text(own.certificate),
                           .key = gyre::tls::pem::text(own.key)}},
         .application_protocols = {"http/1.1"}}));
    client = gyre::tls::client_transport(gyre::tls::tls_context::client({.verify = false}), "host");
  }
  std::shared_ptr<const gyre::net::transport> server;
  std::shared_ptr<const gyre::net::transport> client;
};

const both_sides& sides() {
  static const both_sides only;
  return only;
}

/// The server's end; false when it has failed.
struct server_end {
  bool receive(std::span<const std::byte> bytes) {
    if (failed) return false;
    if (!protocol->is_established()) {
      failed = static_cast<bool>(shake_hands(*protocol, bytes, answers));
      bytes = {};
    }
    if (!failed && protocol->is_established()) {
      failed = static_cast<bool>(read_all(*protocol, bytes, plain, answers));
    }
    gyre::fuzz::require(answers.size() <= most_answered);
    return !failed;
  }
  std::unique_ptr<layer> protocol = sides().server->make_layer({});
  buffer answers;
  buffer plain;
  bool failed = false;
};

void send_made_up_bytes(gyre::fuzz::decisions& input) {
  server_end server;
  if (input.flip()) {
    // A header of a handshake record, so that more than the first bytes matter.
    const std::string head("\x16\x03\x01", 3);
    server.receive(std::as_bytes(std::span(head)));
  }
  while (!input.empty()) {
    const std::string_view part = input.text(1 + input.below(400));
    if (!server.receive(std::as_bytes(std::span(part)))) break;
  }
  gyre::fuzz::require(!server.protocol->is_established());
  gyre::fuzz::require(server.plain.empty());
  gyre::fuzz::require(static_cast<bool>(server.protocol->end_of_bytes()));
}

void change_bytes_of_a_client(gyre::fuzz::decisions& input) {
  server_end server;
  const std::unique_ptr<layer> client = sides().client->make_layer("host");
  buffer from_client;
  buffer to_client;
  buffer plain;
  if (shake_hands(*client, {}, from_client)) return;
  bool changed = false;
  for (int turns = 0; turns < 8; ++turns) {
    if (!input.empty() && !from_client.empty()) {
      const auto bytes = from_client.mutable_bytes();
      const std::uint8_t change = input.byte();
      bytes[input.below(65536) % bytes.size()] ^= std::byte{change};
      changed = changed || change != 0;
    }
    if (!server.receive(from_client.bytes())) break;
    from_client.consume_all();
    to_client.append(server.answers.bytes());
    server.answers.consume_all();
    const std::error_code failed = client->is_established()
                                       ? read_all(*client, to_client.bytes(), plain, from_client)
                                       : shake_hands(*client, to_client.bytes(), from_client);
    to_client.consume_all();
    if (failed) break;
    if (client->is_established() && turns < 4) {
      const std::string text = "plain";
      gyre::fuzz::require(!write(*client, std::as_bytes(std::span(text)), from_client));
    }
  }
  // Any change is noticed before a byte after it is delivered.
  if (!changed) {
    gyre::fuzz::require(!server.failed && server.plain.text().starts_with("plain"));
  }
  for (std::string_view left = server.plain.text(); !left.empty(); left.remove_prefix(5)) {
    gyre::fuzz::require(left.starts_with("plain"));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gyre::fuzz::decisions input(data, size);
  if (input.below(8) == 0) {
    change_bytes_of_a_client(input);
  } else {
    send_made_up_bytes(input);
  }
  return 0;
}
