// SPDX-License-Identifier: Apache-2.0
// Support for tests: statements on a connection_core, whose parameters and results are texts.
#pragma once

#include <gyre/engines/postgres/detail/connection_core.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre::test {

using postgres::detail::connection_core;
using postgres::detail::connection_options;
using postgres::detail::transaction_status;

/// The result of a statement; a null is "NULL".
struct statement_result {
  std::vector<std::vector<std::string>> rows = {};
  std::string tag = {};
  bool is_suspended = false;
  transaction_status status = transaction_status::idle;
};

/// A core of the user postgres, unless the options have another one.
inline std::shared_ptr<connection_core> make_core(event_loop& loop, const std::string& address,
                                                  connection_options options = {}) {
  if (options.login == nullptr) {
    options.login = std::make_shared<postgres::detail::credentials>("postgres", "");
  }
  if (options.database.empty()) options.database = "postgres";
  return std::make_shared<connection_core>(loop, net::host_port(address), options);
}

/// A request that collects what comes, and abandons itself.
class sent_request : public postgres::detail::statement_request {
 public:
  explicit sent_request(std::shared_ptr<connection_core> core) : core_(std::move(core)) {}
  virtual ~sent_request() { core_->abandon(*this); }

  auto wait() noexcept { return done_.wait(); }
  bool was_lost() const noexcept { return is_lost_; }
  bool was_sent() const noexcept { return was_sent_; }
  /// Throws the error.
  const statement_result& result() const {
    if (error_) std::rethrow_exception(error_);
    return result_;
  }

  void on_row(const postgres::detail::row_view& row) noexcept override {
    postgres::detail::row_reader reader(row);
    std::vector<std::string> values;
    for (std::size_t index = 0; index < row.size(); ++index) {
      const auto field = reader.next();
      values.push_back(field.is_null ? "NULL" : std::string(field.text()));
    }
    result_.rows.push_back(std::move(values));
  }
  void on_complete(std::string_view tag) noexcept override { result_.tag = tag; }
  void on_suspended() noexcept override { result_.is_suspended = true; }
  void on_error(postgres::server_message error) noexcept override {
    error_ = std::make_exception_ptr(postgres::server_error(std::move(error)));
  }
  void on_ready(transaction_status status) noexcept override {
    result_.status = status;
    done_.set();
  }
  void on_lost(const std::exception_ptr& error, bool was_sent) noexcept override {
    error_ = error;
    is_lost_ = true;
    was_sent_ = was_sent;
    done_.set();
  }

 protected:
  connection_core& core() noexcept { return *core_; }

 private:
  const std::shared_ptr<connection_core> core_;
  statement_result result_;
  std::exception_ptr error_;
  bool is_lost_ = false;
  bool was_sent_ = false;
  manual_reset_event done_;
};

inline task<> admit(const std::shared_ptr<connection_core>& core) {
  if (core->loop().in_loop_thread() && core->try_admit()) co_return;
  task<> turn = core->admit();
  co_await std::move(turn);
}

template <class... Texts>
std::vector<std::string> texts(const Texts&... each) {
  std::vector<std::string> all;
  [[maybe_unused]] const auto add = [&all](const auto& value) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      all.push_back(std::to_string(value));
    } else {
      all.emplace_back(value);
    }
  };
  (add(each), ...);
  return all;
}

/// Appends the parameters of a statement as texts.
inline auto as_texts(const std::vector<std::string>& values) {
  return [&values](io::buffer& output) {
    output.append(std::uint16_t{0});
    output.append(static_cast<std::uint16_t>(values.size()));
    for (const std::string& each : values) {
      output.append(static_cast<std::uint32_t>(each.size()));
      output.append(each);
    }
  };
}

/// Prepares and executes a statement.
inline task<statement_result> run_statement(std::shared_ptr<connection_core> core, std::string text,
                                            std::vector<std::string> values = {},
                                            postgres::detail::execute_options options = {}) {
  auto preparing = connection_core::prepare(core, text);
  const auto statement = co_await std::move(preparing);
  co_await admit(core);
  sent_request request(core);
  core->execute(request, *statement, as_texts(values), options);
  co_await request.wait();
  co_return request.result();
}

/// Executes a script by the simple protocol.
inline task<statement_result> run_script(std::shared_ptr<connection_core> core,
                                         std::string script) {
  co_await admit(core);
  sent_request request(core);
  core->query(request, script);
  co_await request.wait();
  co_return request.result();
}

}  // namespace gyre::test
