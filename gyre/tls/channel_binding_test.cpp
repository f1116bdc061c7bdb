// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/channel_binding.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/tls_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace channel_binding_test {
namespace {

using gyre::net::layer;
using gyre::tls::server_end_point;
using gyre::tls::session;
using gyre::tls::tls_context;
using gyre::tls::detail::engine;
using gyre::tls::test::authority;
using gyre::tls::test::in_memory;
using gyre::tls::test::issued;
using gyre::tls::test::trusting;

// SHA-256 of the certificate, as OpenSSL reads it from the text.
std::vector<std::byte> hash_of(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr), &X509_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned size = 0;
  EXPECT_EQ(X509_digest(certificate.get(), EVP_sha256(), sum.data(), &size), 1);
  const auto bytes = std::as_bytes(std::span(sum)).first(size);
  return {bytes.begin(), bytes.end()};
}

TEST(ChannelBinding, IsTheHashOfTheServersCertificate) {
  const issued own = authority().issue();
  const auto serving = tls_context::server({.certificates = {in_memory(own)}});
  engine server(serving, "", session());
  engine client(tls_context::client(trusting()), "localhost", session());
  EXPECT_TRUE(server_end_point(client).empty()) << "before the handshake";
  gyre::io::buffer to_server;
  gyre::io::buffer to_client;
  client.send_to(to_server);
  server.send_to(to_client);
  while (!client.is_established() || !server.is_established()) {
    client.feed(to_client.bytes());
    if (!client.is_established()) client.handshake();
    to_client.clear();
    server.feed(to_server.bytes());
    if (!server.is_established()) server.handshake();
    to_server.clear();
  }
  EXPECT_EQ(server_end_point(client), hash_of(own.certificate));
  EXPECT_TRUE(server_end_point(server).empty());
}

TEST(ChannelBinding, IsEmptyForOtherLayers) {
  class plain final : public layer {
   public:
    status read(std::span<std::byte>, std::size_t& count) override {
      count = 0;
      return status::wants_input;
    }
    status peek() override { return status::wants_input; }
    status write(std::span<const std::byte>) override { return status::done; }
  } other;
  EXPECT_TRUE(server_end_point(other).empty());
}

}  // namespace
}  // namespace channel_binding_test
