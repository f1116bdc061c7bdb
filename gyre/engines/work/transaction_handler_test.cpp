// SPDX-License-Identifier: Apache-2.0
// Tests of worker::handle_in_transaction(), and of once() for many keys.
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/postgres/client_options.hpp>
#include <gyre/engines/postgres/session.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/work/error.hpp>
#include <gyre/engines/work/once.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/work_test_support.hpp>
#include <gyre/engines/work/worker.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace transaction_handler_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::transaction;
using gyre::test::code_of;
using gyre::work::errc;
using gyre::work::job;
using gyre::work::job_state;
using gyre::work::new_job;
using gyre::work::once;
using gyre::work::worker;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr gyre::exponential_backoff at_once{.initial = 0ms, .longest = 0ms};
using some_jobs = std::span<job* const>;

struct TransactionHandler : gyre::test::work_test {
  /// Submits a job for each of the words, which is its payload; the jobs are kept. Gives their ids.
  task<std::vector<gyre::work::job_id>> submit(std::string words, std::int32_t max_attempts = 20) {
    co_await db.execute("create table effect (name text, transaction bigint)");
    std::istringstream payloads(words);
    std::vector<new_job> made;
    for (std::string each; payloads >> each;) made.emplace_back().payload = each;
    const auto submitted =
        co_await jobs.submit_many(db, "effect", made, {.max_attempts = max_attempts, .keep = 1h});
    std::vector<gyre::work::job_id> ids;
    for (const auto& each : submitted) ids.push_back(each.id);
    co_return ids;
  }
  static task<> make_effects(some_jobs together, transaction& tx) {
    for (const job* each : together) {
      co_await tx.execute("insert into effect values ($1, txid_current())", each->payload());
    }
  }
  task<> wait_for_ends() {
    return wait_until("select bool_and(ended_at is not null) from work.job");
  }
  task<std::string> effects() {
    return db.query_one<std::string>(
        "select coalesce(string_agg(name, ' ' order by name), '') from effect");
  }
  /// As other workers do after the lease of all workers has ended.
  task<> take_over_all() {
    co_await db.execute("update work.worker set lease_ms = 1, lease_until = '-infinity'");
    co_await wait_until("select pg_postmaster_start_time() + interval '1 s' < clock_timestamp()");
    co_await db.execute("select work.take_over(1000, 1000000)");
  }
};

TEST_F(TransactionHandler, EndsSeveralJobsInTheTransactionOfTheirEffects) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b c d e");
    worker worker(test.db, {.lease = 60s});
    const auto handler = [](some_jobs together, transaction& tx) -> task<std::vector<std::string>> {
      co_await make_effects(together, tx);
      EXPECT_EQ(co_await tx.query_one<std::string>(
                    "select current_setting('idle_in_transaction_session_timeout')"),
                "1min");
      std::vector<std::string> results;
      for (const job* each : together) results.push_back("result of " + each->payload());
      co_return results;
    };
    worker.handle_in_transaction("effect", handler, {.max_jobs = 2});
    co_await with_worker(worker, [&]() -> task<> {
      EXPECT_EQ(co_await test.jobs.result(ids.at(4)), "result of e");
      EXPECT_EQ(co_await test.jobs.result(ids.at(0)), "result of a");
      co_await test.wait_for_ends();
    });
    EXPECT_EQ(co_await test.effects(), "a b c d e");
    EXPECT_EQ(co_await test.db.query_one<int>("select count(distinct transaction) from effect"), 3);
    EXPECT_EQ(worker.metrics().taken, 5u);
    EXPECT_EQ(worker.metrics().finished, 5u);
    EXPECT_EQ(worker.metrics().lost, 0u);
    EXPECT_EQ(worker.metrics().errors, 0u) << worker.metrics().last_error;
  }(*this));
}

TEST_F(TransactionHandler, ABadJobSpoilsNoAttemptOfTheOthers) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a bad c", 1);
    worker worker(test.db);
    const auto handler = [](some_jobs together, transaction& tx) -> task<> {
      for (const job* each : together) {
        co_await tx.execute("insert into effect values ($1)", each->payload());
        if (each->payload() == "bad") throw std::runtime_error("it is bad");
      }
    };
    worker.handle_in_transaction("effect", handler);
    co_await with_worker(worker, [&]() -> task<> { co_await test.wait_for_ends(); });
    EXPECT_EQ(co_await test.effects(), "a c");
    const auto bad = (co_await test.jobs.status(ids.at(1))).value();
    EXPECT_EQ(bad.state, job_state::dead);
    EXPECT_THAT(bad.error, HasSubstr("it is bad"));
    for (const std::size_t good : {0U, 2U}) {
      const auto status = (co_await test.jobs.status(ids.at(good))).value();
      EXPECT_EQ(status.state, job_state::finished);
      EXPECT_EQ(status.attempt, 1);
      EXPECT_EQ(status.failures, 0);
    }
  }(*this));
}

TEST_F(TransactionHandler, AnErrorThatAHandlerIgnoresFailsTheJob) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a", 1);
    worker worker(test.db);
    const auto handler = [](some_jobs, transaction& tx) -> task<> {
      const auto code = co_await code_of(tx.execute("select 1 / 0"));
      EXPECT_NE(code, std::error_code());
    };
    worker.handle_in_transaction("effect", handler);
    co_await with_worker(worker, [&]() -> task<> { co_await test.wait_for_ends(); });
    EXPECT_EQ((co_await test.jobs.status(ids.at(0))).value().state, job_state::dead);
  }(*this));
}

TEST_F(TransactionHandler, AMissingResultFailsTheJobsForGood) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b");
    worker worker(test.db);
    const auto handler = [](some_jobs, transaction& tx) -> task<std::vector<std::string>> {
      co_await tx.execute("insert into effect values ('wrong')");
      co_return std::vector<std::string>(3);
    };
    worker.handle_in_transaction("effect", handler);
    co_await with_worker(worker, [&]() -> task<> { co_await test.wait_for_ends(); });
    const auto status = (co_await test.jobs.status(ids.at(0))).value();
    EXPECT_EQ(status.state, job_state::dead);
    EXPECT_THAT(status.error, HasSubstr("3 results of 1 jobs"));
    EXPECT_EQ(co_await test.effects(), "");
  }(*this));
}

TEST_F(TransactionHandler, LateWorkerCannotCommit) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b");
    gyre::manual_reset_event began;
    gyre::manual_reset_event go;
    int calls = 0;
    worker worker(test.db, {.lease = 60s});
    const auto handler = [&](some_jobs together, transaction& tx) -> task<> {
      // Shielded: the worker asks a late handler to stop.
      const auto work = [&]() -> task<> {
        co_await make_effects(together, tx);
        if (++calls > 1) co_return;
        began.set();
        co_await go.wait();
      };
      co_await gyre::shielded(work());
    };
    worker.handle_in_transaction("effect", handler);
    co_await with_worker(worker, [&]() -> task<> {
      co_await began.wait();
      co_await test.take_over_all();
      go.set();
      co_await test.wait_for_ends();
    });
    EXPECT_EQ(co_await test.effects(), "a b");
    EXPECT_EQ((co_await test.jobs.status(ids.at(0))).value().attempt, 2);
    EXPECT_EQ(worker.metrics().finished, 2u);
  }(*this));
}

TEST_F(TransactionHandler, AJobThatIsTakenOverAloneKeepsNoOtherFromFinishing) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b");
    worker worker(test.db, {.lease = 60s});
    const auto handler = [&](some_jobs together, transaction& tx) -> task<> {
      co_await make_effects(together, tx);
      if (together.size() == 2) {
        // Not by `tx`, as the transaction is rolled back.
        co_await test.db.execute("update work.job set attempt = attempt + 1 where id = $1",
                                 together.front()->id());
      }
    };
    worker.handle_in_transaction("effect", handler);
    co_await with_worker(worker, [&]() -> task<> {
      co_await test.wait_until("select state = 'finished' from work.job where payload = ''");
      while (worker.metrics().lost == 0) co_await gyre::sleep_for(5ms);
    });
    EXPECT_EQ(co_await test.effects(), "b");
    EXPECT_EQ(worker.metrics().finished, 1u);
  }(*this));
}

TEST_F(TransactionHandler, ACancelledJobIsLeftOutOfTheTransaction) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b c");
    gyre::manual_reset_event began;
    gyre::manual_reset_event never;
    worker worker(test.db);
    const auto handler = [&](some_jobs together, transaction& tx) -> task<> {
      co_await make_effects(together, tx);
      if (together.size() == 1) co_return;
      began.set();
      co_await never.wait();
    };
    worker.handle_in_transaction("effect", handler);
    co_await with_worker(worker, [&]() -> task<> {
      co_await began.wait();
      co_await test.jobs.cancel(test.db, ids.at(1));
      co_await test.wait_for_ends();
    });
    EXPECT_EQ(co_await test.effects(), "a c");
    EXPECT_EQ((co_await test.jobs.status(ids.at(1))).value().state, job_state::cancelled);
    EXPECT_EQ((co_await test.jobs.status(ids.at(2))).value().failures, 0);
  }(*this));
}

TEST_F(TransactionHandler, ATransactionBeyondItsTimeLimitIsSplit) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b");
    gyre::manual_reset_event never;
    worker worker(test.db);
    const auto handler = [&](some_jobs together, transaction& tx) -> task<> {
      co_await make_effects(together, tx);
      if (together.size() > 1) co_await never.wait();
    };
    worker.handle_in_transaction("effect", handler, {.time_limit = 1s, .delay = at_once});
    co_await with_worker(worker, [&]() -> task<> { co_await test.wait_for_ends(); });
    EXPECT_EQ(co_await test.effects(), "a b");
  }(*this));
}

TEST_F(TransactionHandler, EffectsHappenOnceThoughTheServerDiesWithinTheTransaction) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b");
    bool is_killed = false;
    worker worker(test.db, {.lease = 5s});
    const auto handler = [&](some_jobs together, transaction& tx) -> task<> {
      co_await make_effects(together, tx);
      if (is_killed) co_return;
      is_killed = true;
      const auto restart = [&]() -> task<> {
        co_await test.server.kill();
        co_await test.server.start_again();
      };
      co_await gyre::shielded(restart());
    };
    worker.handle_in_transaction("effect", handler, {.delay = at_once});
    co_await with_worker(worker, [&]() -> task<> {
      while (worker.metrics().finished != 2) co_await gyre::sleep_for(5ms);
    });
    gyre::postgres::client later(test.loop, test.options());
    EXPECT_EQ(co_await later.query_one<int>("select count(*) from effect"), 2);
  }(*this));
}

TEST_F(TransactionHandler, AServerThatCannotBeReachedUsesUpNoAttempt) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b", 1);
    gyre::postgres::client_options options = test.options();
    options.max_open = 1;
    options.max_connect_attempts = 1;
    gyre::postgres::client single(test.loop, options);
    worker worker(single, {.lease = 60s});
    worker.handle_in_transaction("effect", make_effects);
    // The worker takes the jobs, and waits for a connection in order to run them.
    std::vector<gyre::postgres::session> only;
    only.push_back(co_await single.acquire_session());
    co_await with_worker(worker, [&]() -> task<> {
      while (worker.metrics().running != 2) co_await gyre::sleep_for(5ms);
      co_await test.server.kill();
      only.clear();
      while (worker.metrics().running != 0) co_await gyre::sleep_for(5ms);
      co_await test.server.start_again();
      while (worker.metrics().finished != 2) co_await gyre::sleep_for(5ms);
    });
    EXPECT_EQ(worker.metrics().failed, 0u);
    gyre::postgres::client later(test.loop, test.options());
    EXPECT_EQ(co_await later.query_one<int>("select count(*) from effect"), 2);
  }(*this));
}

TEST_F(TransactionHandler, OnceOfManyKeysTellsTheFirstOfEach) {
  run([](TransactionHandler& test) -> task<> {
    std::vector<std::vector<bool>> results;
    const std::vector<std::vector<std::string>> all = {{"b", "a", "b"}, {}, {"c", "a", "d"}};
    for (const auto& keys : all) {
      const auto body = [&](transaction& tx) -> task<std::vector<bool>> {
        co_return co_await once(tx, keys);
      };
      results.push_back(co_await test.db.transaction(body));
    }
    EXPECT_THAT(results, ElementsAre(ElementsAre(true, true, false), ElementsAre(),
                                     ElementsAre(true, false, true)));
  }(*this));
}

TEST_F(TransactionHandler, OnceOfManyKeysFailsForALateWorker) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a");
    std::vector<std::error_code> codes;
    worker worker(test.db, {.lease = 60s});
    const auto handler = [&](job& current) -> task<> {
      const auto work = [&]() -> task<> {
        if (current.attempt() == 1) co_await test.take_over_all();
        const std::vector<std::string> keys = {"x", "y"};
        const auto body = [&](transaction& tx) -> task<> {
          EXPECT_THAT(co_await once(tx, keys), ElementsAre(true, true));
        };
        codes.push_back(co_await code_of(test.db.transaction(body)));
      };
      co_await gyre::shielded(work());
    };
    worker.handle("effect", handler);
    co_await with_worker(worker, [&]() -> task<> { co_await test.jobs.result(ids.at(0)); });
    // The second attempt may end first.
    EXPECT_THAT(codes,
                UnorderedElementsAre(std::error_code(errc::attempt_taken_over), std::error_code()));
  }(*this));
}

// The states of all jobs, in the order of their submission.
task<std::string> states(gyre::postgres::client& db) {
  return db.query_one<std::string>("select string_agg(state::text, ' ' order by id) from work.job");
}

TEST_F(TransactionHandler, AShortLimitOfOneJobFailsNoOther) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b", 1);
    co_await test.jobs.submit(test.db, "effect", "slow",
                              {.max_attempts = 1, .time_limit = 1ms, .keep = 1h});
    gyre::postgres::client_options options = test.options();
    options.max_open = 1;
    gyre::postgres::client single(test.loop, options);
    std::optional<gyre::postgres::session> other = co_await single.acquire_session();
    worker worker(single, {.lease = 60s});
    const auto handler = [](some_jobs together, transaction& tx) -> task<> {
      co_await make_effects(together, tx);
      if (together.back()->payload() == "slow") co_await gyre::sleep_for(1h);
    };
    worker.handle_in_transaction("effect", handler, {.delay = at_once});
    co_await with_worker(worker, [&]() -> task<> {
      while (worker.metrics().taken != 3) co_await gyre::sleep_for(1ms);
      // The wait for a connection does not count.
      const auto end = std::chrono::steady_clock::now() + 10ms;
      while (std::chrono::steady_clock::now() < end) co_await gyre::sleep_for(1ms);
      other.reset();
      co_await test.wait_for_ends();
    });
    EXPECT_EQ(co_await states(test.db), "finished finished dead");
    EXPECT_EQ(co_await test.effects(), "a b");
    EXPECT_EQ(worker.metrics().released, 0u);
  }(*this));
}

TEST_F(TransactionHandler, AJobThatEndsItsConnectionFailsAloneAfterwards) {
  run([](TransactionHandler& test) -> task<> {
    co_await test.submit("a poison b", 3);
    worker worker(test.db, {.lease = 60s});
    const auto handler = [](some_jobs together, transaction& tx) -> task<> {
      for (const job* each : together) {
        if (each->payload() != "poison") continue;
        co_await tx.execute("select pg_terminate_backend(pg_backend_pid())");
      }
      co_await make_effects(together, tx);
    };
    worker.handle_in_transaction("effect", handler, {.delay = at_once});
    co_await with_worker(worker, [&]() -> task<> { co_await test.wait_for_ends(); });
    EXPECT_EQ(co_await states(test.db), "finished dead finished");
    EXPECT_EQ(co_await test.effects(), "a b");
  }(*this));
}

TEST_F(TransactionHandler, TheWorkersOwnChangesOfAJobDoNotSpoilItsTransaction) {
  run([](TransactionHandler& test) -> task<> {
    co_await test.submit("a", 1);
    gyre::postgres::client_options options = test.options();
    options.settings.emplace_back("default_transaction_isolation", "repeatable read");
    gyre::postgres::client strict(test.loop, options);
    worker worker(strict, {.lease = 60s});
    const auto handler = [&](some_jobs together, transaction& tx) -> task<> {
      co_await make_effects(together, tx);
      co_await test.db.execute("update work.job set progress = 0.5");  // as the worker does
    };
    worker.handle_in_transaction("effect", handler, {.delay = at_once});
    co_await with_worker(worker, [&]() -> task<> { co_await test.wait_for_ends(); });
    EXPECT_EQ(co_await states(test.db), "finished");
  }(*this));
}

TEST_F(TransactionHandler, AHandlerThatEndsTheTransactionHasFailed) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a b", 1);
    worker worker(test.db, {.lease = 60s});
    const auto handler = [](some_jobs together, transaction& tx) -> task<> {
      co_await make_effects(together, tx);
      co_await tx.execute("rollback");
    };
    worker.handle_in_transaction("effect", handler, {.delay = at_once});
    co_await with_worker(worker, [&]() -> task<> { co_await test.wait_for_ends(); });
    EXPECT_EQ(co_await states(test.db), "dead dead");
    EXPECT_THAT((co_await test.jobs.status(ids.at(0))).value().error,
                HasSubstr("has ended the transaction"));
  }(*this));
}

TEST_F(TransactionHandler, KindsWithoutJobsTakeNoSlots) {
  run([](TransactionHandler& test) -> task<> {
    const auto ids = co_await test.submit("a");
    worker worker(test.db, {.lease = 60s, .max_running = 2});
    worker.handle_in_transaction("first", make_effects);
    worker.handle("second", [](job&) -> task<> { co_return; });
    worker.handle_in_transaction("effect", make_effects);
    co_await with_worker(worker, [&]() -> task<> { co_await test.jobs.result(ids.at(0)); });
    EXPECT_EQ(worker.metrics().finished, 1u);
  }(*this));
}

TEST_F(TransactionHandler, KindsTakeTurnsWhereSlotsAreFew) {
  run([](TransactionHandler& test) -> task<> {
    co_await test.submit("a b c d e f");
    const auto small = co_await test.jobs.submit(test.db, "small", "", {.keep = 1h});
    worker worker(test.db, {.lease = 60s, .max_running = 2});
    std::size_t effects_before = 0;
    std::size_t effects = 0;
    const auto make_effect = [&](job&) -> task<> {
      ++effects;
      co_return;
    };
    worker.handle("effect", make_effect);
    worker.handle("small", [&](job&) -> task<> {
      effects_before = effects;
      co_return;
    });
    co_await with_worker(worker, [&]() -> task<> {
      co_await test.jobs.result(small.id);
      co_await test.wait_for_ends();
    });
    EXPECT_LE(effects_before, 1u);
    EXPECT_EQ(effects, 6u);
  }(*this));
}

TEST_F(TransactionHandler, RefusesOptionsThatMakeNoSense) {
  worker worker(db);
  EXPECT_THROW(worker.handle_in_transaction(std::string("a\0b", 3), make_effects),
               std::invalid_argument);
  EXPECT_THROW(worker.handle_in_transaction("a", make_effects, {.max_jobs = 0}),
               std::invalid_argument);
  EXPECT_THROW(worker.handle_in_transaction("a", make_effects, {.max_running = 0}),
               std::invalid_argument);
  worker.handle_in_transaction("a", make_effects);
  EXPECT_THROW(worker.handle_in_transaction("a", make_effects), std::invalid_argument);
}

}  // namespace
}  // namespace transaction_handler_test
