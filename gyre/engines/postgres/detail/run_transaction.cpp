// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/run_transaction.hpp>

#include <gyre/base/detail/error_code_of.hpp>
#include <gyre/engines/postgres/error.hpp>

#include <stdexcept>
#include <system_error>

namespace gyre::postgres::detail {
namespace {

struct generator {
  using result_type = std::uint64_t;
  client_core& client;
  static constexpr result_type min() noexcept { return gyre::detail::splitmix64::min(); }
  static constexpr result_type max() noexcept { return gyre::detail::splitmix64::max(); }
  result_type operator()() noexcept { return client.random(); }
};

}  // namespace

transaction_attempts::transaction_attempts(client_core& client, const transaction_options& options)
    : client_(client), options_(options) {
  if (options.max_attempts == 0) {
    throw std::invalid_argument(
        "gyre::postgres::client::transaction: max_attempts must be at least 1");
  }
}

std::optional<duration> transaction_attempts::delay_after(const std::exception_ptr& error,
                                                          const transaction_state& state) {
  if (++attempts_ >= options_.max_attempts) return std::nullopt;
  const std::error_code code = gyre::detail::error_code_of(error);
  const bool was_rolled_back =
      code == errc::serialization_failure || code == errc::deadlock_detected;
  const bool was_lost = code == errc::connection_lost && !state.has_sent_commit();
  if (!was_rolled_back && !was_lost) return std::nullopt;
  client_.note_retry();
  generator random{client_};
  return options_.delay.jittered_delay(attempts_, random);
}

}  // namespace gyre::postgres::detail
