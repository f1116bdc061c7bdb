// SPDX-License-Identifier: Apache-2.0
// login: proves who we are to a PostgreSQL server, without I/O.
//
// | state       | Ok   | SASL, password  | SASLContinue | SASLFinal | other  |
// |-------------|------|-----------------|--------------|-----------|--------|
// | started     | done | proving / asked | fails        | fails     | fails  |
// | asked       | fails| fails           | proving (1)  | fails     | fails  |
// | proving (1) | fails| fails           | fails        | proved    | fails  |
// | proving (2) | done | fails           | fails        | fails     | fails  |
// | proved      | done | fails           | fails        | fails     | fails  |
//
// 1. By SCRAM: the server has to prove that it knows the password before it may accept us.
// 2. By a password or its MD5, which do not authenticate the server.
#pragma once

#include <gyre/engines/postgres/detail/connection_options.hpp>
#include <gyre/engines/postgres/detail/scram_client.hpp>
#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gyre::postgres::detail {

/// Errors: std::system_error: errc::unsupported_authentication, server_not_authenticated,
/// channel_binding_missing, bad_message, invalid_password (there is none).
class login {
 public:
  /// `channel`: the bytes of tls-server-end-point; empty: there are none. `is_encrypted`: by TLS.
  login(const connection_options& options, std::vector<std::byte> channel, bool is_encrypted);

  /// Takes the body of an authentication message, and appends the reply to it.
  void respond(std::span<const std::byte> body, io::buffer& output);
  bool is_done() const noexcept { return state_ == state::done; }

 private:
  enum class state : std::uint8_t { started, asked, proving_mutually, proving, proved, done };

  void require(state due_state) const;
  const std::string& password() const;
  void accept();
  void begin_scram(std::span<const std::byte> mechanisms, io::buffer& output);

  const std::shared_ptr<credentials> credentials_;
  const channel_binding binding_;
  const bool allow_md5_;
  const bool allow_cleartext_;
  const bool is_encrypted_;
  const std::vector<std::byte> channel_;
  state state_ = state::started;
  bool is_bound_ = false;
  std::optional<scram_client> scram_;
};

}  // namespace gyre::postgres::detail
