// SPDX-License-Identifier: Apache-2.0
// client_core: the connections of a PostgreSQL client.
#pragma once

#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/engines/postgres/client_options.hpp>
#include <gyre/engines/postgres/detail/connection_core.hpp>
#include <gyre/engines/postgres/detail/owned_connection.hpp>
#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/detail/transaction_state.hpp>
#include <gyre/engines/postgres/subscription.hpp>
#include <gyre/engines/postgres/subscription_options.hpp>
#include <gyre/engines/postgres/transaction_options.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::postgres {
class session;
}

namespace gyre::postgres::detail {

class listener;

/// Thread-safety: the loop's thread.
class client_core final : public query_runner, public std::enable_shared_from_this<client_core> {
 public:
  using shared = std::shared_ptr<client_core>;

  /// Throws std::invalid_argument for options that make no sense.
  client_core(event_loop& loop, const client_options& options);
  ~client_core() override;

  event_loop& loop() const noexcept { return loop_; }
  const client_options& options() const noexcept { return options_; }
  client_metrics metrics() const noexcept;
  std::uint64_t random() noexcept { return generator_(); }
  void note_retry() noexcept { ++counts_.retries; }
  bool is_closed() const noexcept { return is_closed_; }
  void close() noexcept;
  /// Throws std::system_error (io::errc::not_open) after close().
  void require_open() const;

  task<std::uint64_t> run(const statement& text, const argument_list& arguments,
                          row_sink& rows) override;
  task<> run_script(std::string script) override;
  task<joined_transaction> join(bool needs_transaction) override;

  /// Takes a connection from the pool.
  static task<std::shared_ptr<connection_lease>> lease(shared self);
  static task<transaction_state::shared> begin_transaction(shared self,
                                                           transaction_options options);
  const std::shared_ptr<listener>& notifications();

  std::size_t max_result_of(const statement& text) const noexcept {
    return text.options().max_result.value_or(options_.max_result);
  }
  connection_options options_of_connection() const;

 private:
  using pool = net::connection_pool<owned_connection>;

  task<std::uint64_t> run_shared(const statement& text, const argument_list& arguments,
                                 row_sink& rows, duration limit);
  /// Returns the shared connection with the fewest statements in flight.
  std::shared_ptr<connection_core> choose_shared();
  void add_shared();

  event_loop& loop_;
  const client_options options_;
  const std::shared_ptr<credentials> login_;
  std::optional<tls::tls_context> tls_;
  gyre::detail::splitmix64 generator_;
  std::vector<std::shared_ptr<connection_core>> shared_connections_;
  std::shared_ptr<connection_list> owned_connections_;
  std::optional<pool> pool_;
  std::shared_ptr<listener> listener_;
  bool is_closed_ = false;
  client_metrics counts_;
};

task<postgres::session> acquire_session(client_core::shared client);
task<subscription> listen(client_core::shared client, std::string channel,
                          subscription_options options);

}  // namespace gyre::postgres::detail
