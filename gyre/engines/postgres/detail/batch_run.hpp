// SPDX-License-Identifier: Apache-2.0
// batch_run: executions that share one Sync, and so one implicit transaction.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/postgres/detail/batch_item.hpp>
#include <gyre/engines/postgres/detail/bound_arguments.hpp>
#include <gyre/engines/postgres/detail/connection_core.hpp>
#include <gyre/engines/postgres/detail/copy_rows.hpp>
#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/detail/statement_reply.hpp>
#include <gyre/engines/postgres/row_traits.hpp>
#include <gyre/engines/postgres/statement.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {

/// Takes the results of the executions in their order, within the connection's turns.
class batch_results {
 public:
  batch_results() noexcept = default;
  batch_results& operator=(batch_results&&) = delete;

  /// A row of the first execution that is not complete.
  virtual void add(const row_view& row) = 0;
  virtual void complete(std::uint64_t rows) = 0;
  /// Returns the text of the execution at `index`, for messages.
  virtual std::string_view text_at(std::size_t index) const noexcept = 0;

 protected:
  ~batch_results() = default;
};

/// The reply to all executions of a batch.
class batch_reply final : public statement_reply {
 public:
  batch_reply(connection_core& core, batch_results& results, std::size_t max_bytes) noexcept
      : statement_reply(core, &rows_, max_bytes), rows_(results), results_(results) {}
  ~batch_reply() override = default;

  /// Returns the number of executions that were completed: the index of one that has failed.
  std::size_t completed() const noexcept { return completed_items_; }
  void on_complete(std::string_view tag) noexcept override;

 private:
  class forwarded_rows final : public row_sink {
   public:
    explicit forwarded_rows(batch_results& results) noexcept : results_(results) {}
    void begin(std::span<const column_description>) override {}
    void add(const row_view& row) override { results_.add(row); }

   private:
    batch_results& results_;
  };

  forwarded_rows rows_;
  batch_results& results_;
  std::size_t completed_items_ = 0;
};

/// A batch on a connection of its own, or that of a transaction or session, which meanwhile refuses
/// other statements. Executions are collected, and sent when there are 64 KiB of them; replies are
/// read meanwhile, so that neither end waits for the other.
///
/// Thread-safety: the loop's thread; one coroutine.
/// Lifetime: `results` must outlive it. The destructor gives an unfinished batch up: nothing of it
/// takes effect, and a transaction that it is a part of fails.
class batch_run {
 public:
  /// Prepares `statements`, to which add() refers by their places.
  static task<std::unique_ptr<batch_run>> begin(shared_runner runner,
                                                std::vector<const statement*> statements,
                                                batch_results& results);

  batch_run(joined_transaction transaction, std::vector<const statement*> statements,
            batch_results& results);
  batch_run& operator=(batch_run&&) = delete;
  ~batch_run();

  /// Begins the rows of an execution of a statement.
  void begin_rows(std::size_t statement_place, row_sink& rows);
  /// Adds an execution. Errors: those of argument_list::write(), whose message names the index.
  void add(std::size_t statement_place, const argument_list& arguments);
  /// Whether send() should be called before another execution is added.
  bool is_full() const noexcept { return bytes_.size() >= full_size; }
  /// Returns false if the batch has failed, so that no more need be added.
  task<bool> send_items();
  /// Ends the batch, and waits for its end. Returns false if nothing was executed because the
  /// server had forgotten a statement, or a table had changed: the batch may be run again. Throws
  /// instead unless `may_repeat`.
  task<bool> finish(bool may_repeat);

 private:
  static constexpr std::size_t full_size = 64 * 1024;

  task<> prepare_statements();
  task<> begin_request();
  [[noreturn]] void throw_failure();
  void forget_statements(bool is_refused) noexcept;
  void end() noexcept;

  const joined_transaction transaction_;
  const std::vector<const statement*> statements_;
  const batch_results& results_;
  std::vector<connection_core::shared_statement> prepared_statements_;
  io::buffer bytes_;
  std::size_t added_items_ = 0;
  bool has_begun_ = false;
  bool is_open_ = true;  // whether other calls are refused
  batch_reply reply_;
};

/// Throws std::system_error with the code of `error`, whose message names the index.
[[noreturn, gnu::cold]] void throw_at(std::size_t index, const std::system_error& error);

/// A row of execute_many().
template <class Row>
class bound_row final : public argument_list {
 public:
  explicit bound_row(const Row& row) noexcept : row_(row) {}

  std::size_t size() const noexcept override { return row_traits<Row>::column_count; }

 private:
  void add_all(argument_sequence& sequence) const override {
    row_traits<Row>::for_each(row_, [&](const auto& column) { sequence.add(column); });
  }

  const Row& row_;
};

/// The results of execute_many().
class affected_counts final : public batch_results {
 public:
  explicit affected_counts(const statement& text) noexcept : text_(text) {}

  void add(const row_view&) override {}
  void complete(std::uint64_t rows) override { counts_.push_back(rows); }
  std::string_view text_at(std::size_t) const noexcept override { return text_.text(); }

  void reset(std::size_t expected) {
    counts_.clear();
    counts_.reserve(expected);
  }
  std::vector<std::uint64_t> take() noexcept { return std::move(counts_); }

 private:
  const statement& text_;
  std::vector<std::uint64_t> counts_;
};

template <class Rows>
task<std::vector<std::uint64_t>> execute_rows(shared_runner runner, statement text,
                                              kept_rows<Rows> rows) {
  using row = typename copied_row<Rows>::type;
  require_runner(runner);
  affected_counts counts(text);
  bool may_repeat = std::ranges::forward_range<Rows>;
  for (;;) {
    auto begin_task = batch_run::begin(runner, {&text}, counts);
    const std::unique_ptr<batch_run> run = co_await std::move(begin_task);
    if constexpr (std::ranges::sized_range<Rows>) {
      counts.reset(static_cast<std::size_t>(std::ranges::size(rows)));
    } else {
      counts.reset(0);
    }
    if constexpr (generator_to_copy<Rows>) {
      while (const auto* values = co_await rows.next()) {
        run->add(0, bound_row<row>(*values));
        if (!run->is_full()) continue;
        task<bool> send_task = run->send_items();
        const bool continues = co_await std::move(send_task);
        if (!continues) break;
      }
    } else {
      for (const row& values : rows) {
        run->add(0, bound_row<row>(values));
        if (!run->is_full()) continue;
        task<bool> send_task = run->send_items();
        const bool continues = co_await std::move(send_task);
        if (!continues) break;
      }
    }
    task<bool> finish_task = run->finish(std::exchange(may_repeat, false));
    const bool is_done = co_await std::move(finish_task);
    if (is_done) co_return counts.take();
  }
}

task<> execute_items(shared_runner runner, batch_items& work);

}  // namespace gyre::postgres::detail
