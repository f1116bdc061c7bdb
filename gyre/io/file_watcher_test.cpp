// SPDX-License-Identifier: Apache-2.0
// Tests of watches of files, directories and trees.
#include <gyre/io/file_watcher.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/system_call_faults.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <stdio.h>  // NOLINT(modernize-deprecated-headers): renameat2
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace file_watcher_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using gyre::sync_wait;
using gyre::task;
using gyre::io::errc;
using gyre::io::file_change;
using gyre::io::file_event;
using gyre::io::file_watch;
using gyre::io::file_watcher;
using gyre::testing::fault;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

constexpr file_change names_only = file_change::created | file_change::removed |
                                   file_change::moved_from | file_change::moved_to |
                                   file_change::renamed;

std::string text_of(const file_event& event) {
  static const std::vector<std::pair<file_change, std::string>> texts{
      {file_change::created, "created"},           {file_change::modified, "modified"},
      {file_change::closed_after_write, "closed"}, {file_change::attributes, "attributes"},
      {file_change::removed, "removed"},           {file_change::moved_from, "moved from"},
      {file_change::moved_to, "moved to"},         {file_change::renamed, "renamed"},
      {file_change::overflowed, "overflowed"},     {file_change::unwatched, "unwatched"}};
  std::string text = "unknown";
  for (const auto& [kind, name] : texts) {
    if (kind == event.kind) text = name;
  }
  if (!event.old_name.empty()) text += " " + event.old_name + " to";
  if (!event.name.empty()) text += " " + event.name;
  return event.is_directory ? text + "/" : text;
}

void write_file(const fs::path& path, const std::string& text = "text") {
  std::ofstream(path, std::ios::app) << text;
}

class FileWatcher : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "gyre-watch-XXXXXX").native();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);  // NOLINT
    folder_ = fs::canonical(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  file_watch watch(const fs::path& path, const gyre::io::file_watch_options& options = {}) {
    return watcher_.add(path.native(), options);
  }
  file_event next() { return sync_wait(loop_, watcher_.next()); }
  std::vector<std::string> next(int count) {
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) texts.push_back(text_of(next()));
    return texts;
  }
  // Empty if there is an event.
  std::error_code error_of_next() {
    const auto ended = sync_wait(loop_, gyre::as_expected(watcher_.next()));
    return ended ? std::error_code() : ended.error();
  }
  void serve() {
    while (loop_.poll()) continue;
  }
  // Gives all events to `follow` until the watcher has seen all that has happened. Its wait for the
  // other part of a rename ends by the next change, and what it doubts it looks at after that.
  template <class Function>
  void catch_up(const fs::path& tree, Function follow) {
    for (int round = 0; round < 3; ++round) {
      for (;;) {
        auto waiting = gyre::spawn_future(loop_, watcher_.next());
        serve();
        const bool idle = waiting.wait_for(0s) != std::future_status::ready;
        if (idle) write_file(tree / ("mark" + std::to_string(++marks_)));
        while (waiting.wait_for(0s) != std::future_status::ready) loop_.poll();
        follow(waiting.get());
        if (idle) break;
      }
    }
  }
  // The names that are created, but for those of catch_up().
  std::set<std::string> created_in(const fs::path& tree) {
    std::set<std::string> names;
    catch_up(tree, [&](const file_event& event) {
      if (event.kind == file_change::created && !event.name.starts_with("mark")) {
        names.insert(event.name);
      }
    });
    return names;
  }

  int marks_ = 0;
  fs::path folder_;
  gyre::loop loop_;
  file_watcher watcher_{loop_};
};

// ---- kinds

TEST_F(FileWatcher, TellsWhatHappensToAnEntryOfADirectory) {
  const file_watch watched = watch(folder_);
  const fs::path file = folder_ / "file";
  write_file(file);
  EXPECT_THAT(next(3), ElementsAre("created file", "modified file", "closed file"));
  ::chmod(file.c_str(), 0600);
  EXPECT_EQ(text_of(next()), "attributes file");
  fs::remove(file);
  const file_event removed = next();
  EXPECT_EQ(text_of(removed), "removed file");
  EXPECT_EQ(removed.watch, watched);
  fs::create_directory(folder_ / "directory");
  EXPECT_EQ(text_of(next()), "created directory/");
}

TEST_F(FileWatcher, GivesOnlyTheKindsThatWereAskedFor) {
  watch(folder_, {.changes = file_change::closed_after_write});
  write_file(folder_ / "one");
  fs::remove(folder_ / "one");
  write_file(folder_ / "two");
  EXPECT_THAT(next(2), ElementsAre("closed one", "closed two"));
}

TEST_F(FileWatcher, GivesARenameWithBothNames) {
  write_file(folder_ / "old");
  watch(folder_);
  fs::rename(folder_ / "old", folder_ / "new");
  const file_event renamed = next();
  EXPECT_EQ(renamed.kind, file_change::renamed);
  EXPECT_EQ(renamed.old_name, "old");
  EXPECT_EQ(renamed.name, "new");
}

TEST_F(FileWatcher, GivesOneEndOfARenameThatLeavesOrEnters) {
  fs::create_directory(folder_ / "inside");
  write_file(folder_ / "file");
  watch(folder_ / "inside");
  fs::rename(folder_ / "file", folder_ / "inside/file");
  EXPECT_EQ(text_of(next()), "moved to file");
  fs::rename(folder_ / "inside/file", folder_ / "file");
  EXPECT_EQ(text_of(next()), "moved from file") << "after a short wait for the other end";
}

TEST_F(FileWatcher, GivesTheEndsOfARenameBetweenTwoWatchesOneCookie) {
  fs::create_directory(folder_ / "a");
  fs::create_directory(folder_ / "b");
  const file_watch a = watch(folder_ / "a", {.changes = names_only});
  const file_watch b = watch(folder_ / "b", {.changes = names_only});
  write_file(folder_ / "a/file");
  EXPECT_EQ(text_of(next()), "created file");
  fs::rename(folder_ / "a/file", folder_ / "b/other");
  const file_event from = next();
  const file_event to = next();
  EXPECT_EQ(text_of(from), "moved from file");
  EXPECT_EQ(text_of(to), "moved to other");
  EXPECT_EQ(from.watch, a);
  EXPECT_EQ(to.watch, b);
  EXPECT_NE(from.cookie, 0U);
  EXPECT_EQ(from.cookie, to.cookie);
}

TEST_F(FileWatcher, PairsARenameWhosePartsAreReadApart) {
  watch(folder_, {.changes = names_only});
  // As many renames as do not fit into one read, so that some are cut in two.
  write_file(folder_ / "0");
  constexpr int renames = 2000;
  for (int i = 0; i < renames; ++i) {
    fs::rename(folder_ / std::to_string(i), folder_ / std::to_string(i + 1));
  }
  EXPECT_EQ(text_of(next()), "created 0");
  for (int i = 0; i < renames; ++i) {
    EXPECT_EQ(text_of(next()), "renamed " + std::to_string(i) + " to " + std::to_string(i + 1));
  }
}

// ---- the end of watches

TEST_F(FileWatcher, WatchOfAFileEndsWhenItIsReplaced) {
  const fs::path file = folder_ / "file";
  write_file(file);
  const file_watch watched = watch(file, {.changes = file_change::removed});
  write_file(folder_ / "new");
  fs::rename(folder_ / "new", file);
  EXPECT_THAT(next(2), ElementsAre("removed", "unwatched"));
  EXPECT_FALSE(watcher_.remove(watched)) << "has ended";
}

TEST_F(FileWatcher, WatchByNameGoesOnWhenTheFileIsReplaced) {
  const fs::path file = folder_ / "file";
  watch(file,
        {.changes = file_change::closed_after_write | file_change::moved_to | file_change::removed,
         .by_name = true});
  write_file(folder_ / "other");
  write_file(file);
  const file_event written = next();
  EXPECT_EQ(text_of(written), "closed") << "the file did not exist before";
  for (int i = 0; i < 3; ++i) {
    write_file(folder_ / "new");
    fs::rename(folder_ / "new", file);
    EXPECT_EQ(text_of(next()), "moved to");
  }
  fs::remove(file);
  EXPECT_EQ(text_of(next()), "removed");
  fs::remove(folder_ / "other");
  fs::remove(folder_);
  EXPECT_EQ(text_of(next()), "unwatched") << "the directory is gone";
}

// As Kubernetes replaces the files of a ConfigMap.
class config_volume {
 public:
  explicit config_volume(fs::path folder) : folder_(std::move(folder)) {
    fs::create_directory(folder_);
    publish("one");
    fs::create_symlink("..data/config", folder_ / "config");
  }
  void publish(const std::string& content) {
    const std::string version = "..version" + std::to_string(++versions_);
    fs::create_directory(folder_ / version);
    write_file(folder_ / version / "config", content);
    fs::create_directory_symlink(version, folder_ / "..data_tmp");
    fs::rename(folder_ / "..data_tmp", folder_ / "..data");
    fs::remove_all(folder_ / ("..version" + std::to_string(versions_ - 1)));
  }

 private:
  fs::path folder_;
  int versions_ = 0;
};

TEST_F(FileWatcher, WatchByNameFollowsALinkThatIsReplacedOnTheWay) {
  config_volume volume(folder_ / "volume");
  watch(folder_ / "volume/config",
        {.changes = file_change::closed_after_write | file_change::moved_to, .by_name = true});
  for (int i = 0; i < 5; ++i) {
    volume.publish("new " + std::to_string(i));
    EXPECT_EQ(text_of(next()), "moved to");
    write_file(folder_ / "volume/config");
    EXPECT_EQ(text_of(next()), "closed") << "the file that the path leads to now";
  }
  serve();
  volume.publish("last");
  EXPECT_EQ(text_of(next()), "moved to");
}

TEST_F(FileWatcher, WatchByNameFollowsLinksAboveItsDirectory) {
  fs::create_directories(folder_ / "releases/1");
  fs::create_directories(folder_ / "releases/2");
  write_file(folder_ / "releases/1/config");
  write_file(folder_ / "releases/2/config");
  fs::create_directory_symlink("releases/1", folder_ / "current");
  fs::create_directory(folder_ / "links");
  fs::create_directory_symlink("../current/.", folder_ / "links/alias");
  watch(folder_ / "links/alias/config", {.by_name = true});
  fs::create_directory_symlink("releases/2", folder_ / "next");
  fs::rename(folder_ / "next", folder_ / "current");
  EXPECT_EQ(text_of(next()), "moved to");
  fs::remove_all(folder_ / "releases/1");
  fs::remove(folder_ / "current");
  EXPECT_EQ(text_of(next()), "moved from") << "the old release does not matter";
  fs::create_directory_symlink("releases/3", folder_ / "current");
  fs::rename(folder_ / "releases/2", folder_ / "releases/3");
  EXPECT_EQ(text_of(next()), "moved to");
}

TEST_F(FileWatcher, WatchByNameFollowsALinkThatLeadsNowhereYet) {
  fs::create_symlink("target", folder_ / "config");
  watch(folder_ / "config", {.changes = names_only, .by_name = true});
  write_file(folder_ / "target");
  EXPECT_EQ(text_of(next()), "created");
  fs::rename(folder_ / "target", folder_ / "old");
  EXPECT_EQ(text_of(next()), "moved from");
  fs::create_symlink("old", folder_ / "target");
  EXPECT_EQ(text_of(next()), "created");
  fs::remove(folder_ / "old");
  EXPECT_EQ(text_of(next()), "removed");
}

TEST_F(FileWatcher, WatchByNameTellsOnceThatTheLinkItselfIsReplaced) {
  write_file(folder_ / "a");
  write_file(folder_ / "b");
  fs::create_symlink("a", folder_ / "config");
  watch(folder_ / "config", {.changes = names_only, .by_name = true});
  fs::create_symlink("b", folder_ / "next");
  fs::rename(folder_ / "next", folder_ / "config");
  EXPECT_EQ(text_of(next()), "moved to");
  fs::remove(folder_ / "a");
  fs::remove(folder_ / "b");
  EXPECT_EQ(text_of(next()), "removed");
}

TEST_F(FileWatcher, WatchByNameOfALinkThatIsNotFollowedKeepsToTheLink) {
  config_volume volume(folder_ / "volume");
  watch(folder_ / "volume/config",
        {.changes = names_only, .by_name = true, .follow_symlink = false});
  volume.publish("new");
  fs::remove(folder_ / "volume/config");
  EXPECT_EQ(text_of(next()), "removed");
}

TEST_F(FileWatcher, WatchByNameOfLinksInACircleIsRefusedAndToldLater) {
  fs::create_symlink("config", folder_ / "config");
  EXPECT_THROW(watch(folder_ / "config", {.by_name = true}), std::system_error);
  fs::remove(folder_ / "config");
  watch(folder_ / "config", {.changes = file_change::moved_to, .by_name = true});
  fs::create_symlink("config", folder_ / "config");
  EXPECT_EQ(error_of_next(), std::errc::too_many_symbolic_link_levels);
  write_file(folder_ / "new");
  fs::rename(folder_ / "new", folder_ / "config");
  EXPECT_EQ(text_of(next()), "moved to");
}

TEST_F(FileWatcher, WatchByNameTellsThatItsDirectoryIsRenamed) {
  fs::create_directory(folder_ / "a");
  watch(folder_ / "a/file", {.changes = names_only, .by_name = true});
  fs::rename(folder_ / "a", folder_ / "b");
  EXPECT_EQ(text_of(next()), "moved from");
  write_file(folder_ / "b/file");
  EXPECT_EQ(text_of(next()), "created") << "the watch stays with the directory";
}

TEST_F(FileWatcher, WatchByNameStaysWithItsRenamedDirectory) {
  fs::create_directory(folder_ / "old");
  watch(folder_ / "old/file", {.changes = names_only, .by_name = true});
  fs::rename(folder_ / "old", folder_ / "new");
  EXPECT_EQ(text_of(next()), "moved from");
  fs::create_directory(folder_ / "old");
  for (int i = 0; i < 3; ++i) {
    write_file(folder_ / "new/file");
    EXPECT_EQ(text_of(next()), "created");
    write_file(folder_ / "old/file");
    fs::remove(folder_ / "new/file");
    EXPECT_EQ(text_of(next()), "removed");
  }
}

TEST_F(FileWatcher, WatchByNameEndsWithItsDirectory) {
  fs::create_directory(folder_ / "directory");
  write_file(folder_ / "directory/file");
  const file_watch ended =
      watch(folder_ / "directory/file", {.changes = names_only, .by_name = true});
  fs::remove_all(folder_ / "directory");
  EXPECT_THAT(next(2), ElementsAre("removed", "unwatched"));
  EXPECT_FALSE(watcher_.remove(ended));
}

TEST_F(FileWatcher, WatchByNameOfARelativePathWatchesTheWorkingDirectory) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  watch("file", {.changes = file_change::created, .by_name = true});
  fs::current_path(before);
  write_file(folder_ / "file");
  EXPECT_EQ(text_of(next()), "created");
}

TEST_F(FileWatcher, RemovedWatchGivesNothingMore) {
  fs::create_directory(folder_ / "a");
  const file_watch removed = watch(folder_, {.changes = names_only});
  watch(folder_ / "a", {.changes = names_only});
  write_file(folder_ / "one");
  write_file(folder_ / "two");
  EXPECT_EQ(text_of(next()), "created one") << "the other was read as well";
  EXPECT_TRUE(watcher_.remove(removed));
  EXPECT_FALSE(watcher_.remove(removed));
  write_file(folder_ / "three");
  write_file(folder_ / "a/four");
  EXPECT_EQ(text_of(next()), "created four");
}

TEST_F(FileWatcher, RemovedDirectoryEndsItsWatch) {
  fs::create_directory(folder_ / "a");
  watch(folder_ / "a");
  fs::remove(folder_ / "a");
  EXPECT_THAT(next(2), ElementsAre("removed", "unwatched"));
}

TEST_F(FileWatcher, TwoWatchesOfADirectoryGetTheirOwnKinds) {
  const file_watch first = watch(folder_, {.changes = file_change::created});
  const file_watch second = watch(folder_, {.changes = file_change::removed});
  write_file(folder_ / "file");
  fs::remove(folder_ / "file");
  const file_event created = next();
  EXPECT_EQ(created.watch, first);
  EXPECT_EQ(created.kind, file_change::created);
  const file_event removed = next();
  EXPECT_EQ(removed.watch, second);
  EXPECT_EQ(removed.kind, file_change::removed);
  EXPECT_TRUE(watcher_.remove(first));
  write_file(folder_ / "file");
  fs::remove(folder_ / "file");
  EXPECT_EQ(next().watch, second);
}

TEST_F(FileWatcher, SymbolicLinkIsFollowedUnlessToldOtherwise) {
  write_file(folder_ / "file");
  fs::create_symlink("file", folder_ / "link");
  const file_watch target = watch(folder_ / "link", {.changes = file_change::modified});
  const file_watch link =
      watch(folder_ / "link", {.changes = file_change::attributes, .follow_symlink = false});
  write_file(folder_ / "file");
  EXPECT_EQ(next().watch, target);
  fs::rename(folder_ / "link", folder_ / "link2");
  ::lchown((folder_ / "link2").c_str(), ::getuid(), ::getgid());
  EXPECT_EQ(next().watch, link);
}

// ---- trees

TEST_F(FileWatcher, RecursiveWatchConcernsAllDirectories) {
  fs::create_directories(folder_ / "a/b");
  watch(folder_, {.changes = names_only, .recursive = true});
  write_file(folder_ / "a/b/file");
  EXPECT_EQ(text_of(next()), "created a/b/file");
  fs::rename(folder_ / "a/b/file", folder_ / "a/file");
  EXPECT_EQ(text_of(next()), "renamed a/b/file to a/file");
  fs::remove_all(folder_ / "a");
  EXPECT_THAT(next(3), UnorderedElementsAre("removed a/b/", "removed a/file", "removed a/"));
}

TEST_F(FileWatcher, RecursiveWatchReportsWhatNewDirectoriesHaveAlready) {
  watch(folder_, {.changes = file_change::created, .recursive = true});
  fs::create_directories(folder_ / "a/b/c");
  write_file(folder_ / "a/b/c/file");  // before the watcher knows of any
  EXPECT_THAT(next(4),
              ElementsAre("created a/", "created a/b/", "created a/b/c/", "created a/b/c/file"));
  write_file(folder_ / "a/b/c/later");
  EXPECT_EQ(text_of(next()), "created a/b/c/later");
}

TEST_F(FileWatcher, RecursiveWatchReportsWhatComesWithADirectory) {
  fs::create_directories(folder_ / "tree");
  fs::create_directories(folder_ / "outside/inner");
  write_file(folder_ / "outside/inner/file");
  watch(folder_ / "tree", {.changes = names_only, .recursive = true});
  fs::rename(folder_ / "outside", folder_ / "tree/inside");
  EXPECT_THAT(next(3), ElementsAre("moved to inside/", "created inside/inner/",
                                   "created inside/inner/file"));
  fs::rename(folder_ / "tree/inside", folder_ / "outside");
  EXPECT_EQ(text_of(next()), "moved from inside/");
  write_file(folder_ / "outside/inner/unseen");
  write_file(folder_ / "tree/seen");
  EXPECT_EQ(text_of(next()), "created seen") << "a directory that has left is not watched";
}

TEST_F(FileWatcher, RecursiveWatchFollowsARenamedDirectory) {
  fs::create_directories(folder_ / "a/b");
  fs::create_directories(folder_ / "ab");
  watch(folder_, {.changes = names_only, .recursive = true});
  fs::rename(folder_ / "a", folder_ / "new");
  EXPECT_EQ(text_of(next()), "renamed a to new/");
  write_file(folder_ / "new/b/file");
  write_file(folder_ / "ab/file");
  EXPECT_THAT(next(2), ElementsAre("created new/b/file", "created ab/file"));
  fs::create_directory(folder_ / "new/b/c");
  EXPECT_EQ(text_of(next()), "created new/b/c/");
  write_file(folder_ / "new/b/c/file");
  EXPECT_EQ(text_of(next()), "created new/b/c/file");
}

TEST_F(FileWatcher, RecursiveWatchKnowsANewDirectoryOfTheOldName) {
  watch(folder_, {.changes = names_only, .recursive = true});
  fs::create_directory(folder_ / "a");
  fs::rename(folder_ / "a", folder_ / "b");
  fs::create_directory(folder_ / "a");
  EXPECT_THAT(next(4), ElementsAre("created a/", "moved from a/", "moved to b/", "created a/"))
      << "it never saw the first one as a";
  write_file(folder_ / "a/in-a");
  write_file(folder_ / "b/in-b");
  EXPECT_THAT(created_in(folder_), IsSupersetOf({"a/in-a", "b/in-b"}));
}

TEST_F(FileWatcher, RecursiveWatchKnowsDirectoriesThatChangePlaces) {
  fs::create_directories(folder_ / "a/x");
  fs::create_directories(folder_ / "b/y");
  watch(folder_, {.changes = names_only, .recursive = true});
  ASSERT_EQ(::renameat2(AT_FDCWD, (folder_ / "a").c_str(), AT_FDCWD, (folder_ / "b").c_str(),
                        RENAME_EXCHANGE),
            0);
  created_in(folder_);
  for (const char* name : {"a/1", "b/2", "a/y/3", "b/x/4"}) write_file(folder_ / name);
  EXPECT_THAT(created_in(folder_), UnorderedElementsAre("a/1", "b/2", "a/y/3", "b/x/4"));
}

TEST_F(FileWatcher, RecursiveWatchKnowsADirectoryThatIsRenamedWhileItIsRead) {
  watch(folder_, {.changes = names_only, .recursive = true});
  fs::create_directories(folder_ / "p/one");
  fs::create_directories(folder_ / "p/two/inner");
  EXPECT_THAT(next(2), ElementsAre("created p/", testing::StartsWith("created p/")));
  fs::rename(folder_ / "p", folder_ / "q");
  created_in(folder_);
  for (const char* name : {"q/one/1", "q/two/2", "q/two/inner/3"}) write_file(folder_ / name);
  EXPECT_THAT(created_in(folder_), UnorderedElementsAre("q/one/1", "q/two/2", "q/two/inner/3"));
}

TEST_F(FileWatcher, RecursiveWatchReadsADirectoryThatWasRenamedWhileItWasAdded) {
  fs::create_directories(folder_ / "a/b");
  {
    // The third directory that is opened is "a" again, to be read.
    const fault moved("openat", ENOENT, {.after = 2});
    watch(folder_, {.changes = names_only, .recursive = true});
    EXPECT_EQ(moved.hits(), 1);
  }
  EXPECT_THAT(created_in(folder_), testing::IsEmpty());
  write_file(folder_ / "a/b/file");
  EXPECT_THAT(created_in(folder_), UnorderedElementsAre("a/b/file"));
}

TEST_F(FileWatcher, RecursiveWatchTellsApartDirectoriesThatHadOneName) {
  watch(folder_, {.changes = names_only, .recursive = true});
  fs::create_directory(folder_ / "p");
  EXPECT_EQ(text_of(next()), "created p/");
  fs::create_directories(folder_ / "p/d/old");
  fs::rename(folder_ / "p/d", folder_ / "p/e");
  fs::create_directories(folder_ / "p/d/new");
  created_in(folder_);
  write_file(folder_ / "p/d/new/1");
  write_file(folder_ / "p/e/old/2");
  EXPECT_THAT(created_in(folder_), UnorderedElementsAre("p/d/new/1", "p/e/old/2"));
}

TEST_F(FileWatcher, RecursiveWatchIsNotLedAwayByALinkInADirectorysPlace) {
  fs::create_directories(folder_ / "outside/secret");
  fs::create_directories(folder_ / "tree");
  watch(folder_ / "tree", {.changes = names_only, .recursive = true});
  fs::create_directory(folder_ / "tree/p");
  EXPECT_EQ(text_of(next()), "created p/");
  fs::remove(folder_ / "tree/p");
  fs::create_directory_symlink("../outside", folder_ / "tree/p");
  EXPECT_THAT(next(2), ElementsAre("removed p/", "created p"));
  write_file(folder_ / "outside/secret/unseen");
  write_file(folder_ / "tree/seen");
  EXPECT_EQ(text_of(next()), "created seen");
}

TEST_F(FileWatcher, RecursiveWatchTellsThatItsPathLeadsElsewhere) {
  fs::create_directories(folder_ / "above/root");
  watch(folder_ / "above/root", {.changes = names_only, .recursive = true});
  fs::rename(folder_ / "above", folder_ / "renamed");
  fs::create_directory(folder_ / "renamed/root/new");
  EXPECT_EQ(text_of(next()), "created new/");
  EXPECT_EQ(error_of_next(), errc::watch_moved);
  write_file(folder_ / "renamed/root/file");
  EXPECT_EQ(text_of(next()), "created file") << "known directories are watched still";
  fs::rename(folder_ / "renamed", folder_ / "above");
  fs::create_directory(folder_ / "above/root/more");
  EXPECT_THAT(next(2), ElementsAre("created more/", "created new/")) << "it has been found again";
  write_file(folder_ / "above/root/new/1");
  EXPECT_EQ(text_of(next()), "created new/1");
}

std::set<std::string> names_in(const fs::path& top) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    names.insert(entry.path().native().substr(top.native().size() + 1));
  }
  return names;
}

// Makes, moves and removes directories at random.
void change_tree(const fs::path& top, unsigned seed, int changes) {
  std::mt19937 random(seed);
  const auto pick = [&] {
    fs::path path = top;
    for (unsigned depth = 1 + random() % 4; depth > 0; --depth)
      path /= "abc"[random() % 3] + std::string();
    return path;
  };
  for (int i = 0; i < changes; ++i) {
    const fs::path one = pick();
    const fs::path other = pick();
    std::error_code ignored;
    switch (random() % 6) {
      case 0:
      case 1: ::mkdir(one.c_str(), 0700); break;
      case 2: fs::create_directories(one / "a/b", ignored); break;
      case 3:
      case 4: fs::rename(one, other, ignored); break;
      default: fs::remove_all(one, ignored); break;
    }
  }
}

TEST_F(FileWatcher, RecursiveWatchKnowsEachDirectoryHoweverTheyAreMovedMeanwhile) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const fs::path top = folder_ / std::to_string(seed);
    fs::create_directory(top);
    const file_watch watched = watch(top, {.changes = names_only, .recursive = true});
    std::jthread changer([&] {
      change_tree(top, seed, 150);
      fs::create_directory(top / "end");
    });
    while (next().name != "end") continue;
    changer.join();
    created_in(top);
    std::set<std::string> probes;
    for (const std::string& name : names_in(top)) {
      if (!fs::is_directory(top / name)) continue;
      write_file(top / name / "probe");
      probes.insert(name + "/probe");
    }
    EXPECT_THAT(created_in(top), testing::ContainerEq(probes)) << "seed " << seed;
    watcher_.remove(watched);
  }
}

TEST_F(FileWatcher, RecursiveWatchDoesNotFollowSymbolicLinks) {
  fs::create_directories(folder_ / "tree/a");
  fs::create_directory_symlink("..", folder_ / "tree/a/up");
  fs::create_directory(folder_ / "outside");
  watch(folder_ / "tree", {.changes = names_only, .recursive = true});
  fs::create_directory_symlink("../outside", folder_ / "tree/link");
  write_file(folder_ / "outside/file");
  write_file(folder_ / "tree/a/file");
  EXPECT_THAT(next(2), ElementsAre("created link", "created a/file"));
}

TEST_F(FileWatcher, RecursiveWatchEndsWithItsRoot) {
  fs::create_directories(folder_ / "tree/a");
  watch(folder_ / "tree", {.changes = names_only, .recursive = true});
  fs::remove_all(folder_ / "tree");
  EXPECT_THAT(next(3), ElementsAre("removed a/", "removed", "unwatched"));
}

TEST_F(FileWatcher, RecursiveWatchMissesNoFileOfAThreadThatMakesTrees) {
  watch(folder_, {.changes = names_only, .recursive = true});
  std::set<std::string> made;
  for (int i = 0; i < 50; ++i) {
    const std::string name = std::to_string(i);
    for (const std::string& file : {name + "/file", name + "/inner/file"}) made.insert(file);
  }
  std::jthread maker([&] {
    for (int i = 0; i < 50; ++i) {
      const fs::path place = folder_ / std::to_string(i);
      fs::create_directories(place / "inner");
      write_file(place / "inner/file");
      write_file(place / "file");
    }
  });
  while (!made.empty()) {
    const file_event event = next();
    if (event.kind == file_change::created) made.erase(event.name);
  }
}

// ---- limits

TEST_F(FileWatcher, TellsAnOverflowAndGoesOnInDirectoriesItMissed) {
  int most = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> most;
  if (most == 0 || most > 100'000) GTEST_SKIP() << "the kernel's queue holds " << most;
  watch(folder_, {.changes = names_only, .recursive = true});
  write_file(folder_ / "0");
  for (int i = 0; i < most; ++i) {
    fs::rename(folder_ / std::to_string(i), folder_ / std::to_string(i + 1));
  }
  fs::create_directories(folder_ / "missed/inner");
  int events = 0;
  file_event event = next();
  for (; event.kind != file_change::overflowed; ++events) event = next();
  EXPECT_EQ(event.watch, file_watch::none);
  EXPECT_GE(events, most / 2 - 1) << "renames have two parts";
  EXPECT_THAT(next(2), ElementsAre("created missed/", "created missed/inner/"));
  write_file(folder_ / "missed/inner/file");
  EXPECT_EQ(text_of(next()), "created missed/inner/file");
}

class FileWatcherAfterAnOverflow : public FileWatcher {
 protected:
  void SetUp() override {
    FileWatcher::SetUp();
    for (const char* each : {"directory", "kept", "link's", "name's", "noise", "tree"}) {
      fs::create_directory(folder_ / each);
    }
    fs::create_directory_symlink("link's", folder_ / "link");
    write_file(folder_ / "file");
    watch(folder_ / "kept", {.changes = names_only});
    ended_ = {watch(folder_ / "file"), watch(folder_ / "directory"),
              watch(folder_ / "name's/file", {.by_name = true}),
              watch(folder_ / "tree", {.recursive = true})};
    linked_ = watch(folder_ / "link/file", {.by_name = true});
  }
  // False if the kernel's queue is too long for a test. The events are of a watch that is removed.
  bool overflow() {
    int most = 0;
    std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> most;
    if (most == 0 || most > 100'000) return false;
    const file_watch noise = watch(folder_ / "noise", {.changes = file_change::modified});
    std::array<std::ofstream, 2> files{std::ofstream(folder_ / "noise/0"),
                                       std::ofstream(folder_ / "noise/1")};
    for (int i = 0; i <= most; ++i) files[static_cast<std::size_t>(i % 2)] << 'x' << std::flush;
    return watcher_.remove(noise);
  }
  void remove_watched() const {
    for (const char* each : {"directory", "file", "link's", "name's", "tree"}) {
      fs::remove(folder_ / each);
    }
  }
  void expect_overflow() { EXPECT_EQ(text_of(next()), "overflowed"); }
  std::vector<file_watch> unwatched(std::size_t count) {
    std::vector<file_watch> watches;
    while (watches.size() < count) {
      const file_event event = next();
      EXPECT_EQ(event.kind, file_change::unwatched) << text_of(event);
      watches.push_back(event.watch);
    }
    return watches;
  }
  void expect_going_on() {
    write_file(folder_ / "kept/new");
    EXPECT_EQ(text_of(next()), "created new");
  }

  std::vector<file_watch> ended_;
  file_watch linked_{};
};

TEST_F(FileWatcherAfterAnOverflow, TellsWhichWatchesHaveEnded) {
  if (!overflow()) GTEST_SKIP();
  remove_watched();
  expect_overflow();
  EXPECT_THAT(unwatched(ended_.size()), UnorderedElementsAreArray(ended_));
  for (const file_watch each : ended_) EXPECT_FALSE(watcher_.remove(each));
  expect_going_on();
  fs::create_directory(folder_ / "link's");
  write_file(folder_ / "link/file");
  EXPECT_EQ(next().watch, linked_) << "a path with links is followed";
}

TEST_F(FileWatcherAfterAnOverflow, TellsThatAllWatchesHaveEnded) {
  if (!overflow()) GTEST_SKIP();
  watcher_.remove(linked_);
  remove_watched();
  fs::remove_all(folder_ / "kept");
  expect_overflow();
  unwatched(ended_.size() + 1);
  EXPECT_TRUE(sync_wait(loop_, [&]() -> task<bool> {
    co_return !co_await gyre::as_expected(gyre::with_timeout(watcher_.next(), 0s));
  }()));
}

TEST_F(FileWatcherAfterAnOverflow, TellsEndsOnceThereIsADescriptorToSeeThem) {
  if (!overflow()) GTEST_SKIP();
  remove_watched();
  {
    const fault none_left("open", EMFILE);
    expect_overflow();
  }
  std::vector<file_watch> seen;
  while (seen.size() < ended_.size()) {
    const auto event = sync_wait(loop_, gyre::as_expected(watcher_.next()));
    if (event && event->kind == file_change::unwatched) seen.push_back(event->watch);
  }
  EXPECT_THAT(seen, UnorderedElementsAreArray(ended_));
  expect_going_on();
}

TEST_F(FileWatcherAfterAnOverflow, GoesOnWhereTheKernelListsNoWatches) {
  if (!overflow()) GTEST_SKIP();
  const fault no_proc("open", ENOENT, {.times = -1});
  expect_overflow();
  expect_going_on();
}

TEST_F(FileWatcher, AtTheUsersLimitTheErrorNamesTheSetting) {
  fs::create_directories(folder_ / "a/b");
  try {
    const fault full("inotify_add_watch", ENOSPC, {.after = 1});
    watch(folder_, {.recursive = true});
    FAIL() << "no error";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), errc::watch_limit);
    EXPECT_THAT(error.what(), HasSubstr("fs.inotify.max_user_watches"));
    EXPECT_THAT(error.what(), HasSubstr(folder_.native()));
  }
  watch(folder_ / "a", {.changes = names_only});
  write_file(folder_ / "unwatched");
  write_file(folder_ / "a/file");
  EXPECT_EQ(text_of(next()), "created file") << "nothing of the failed watch is left";
}

TEST_F(FileWatcher, NewDirectoryThatCannotBeWatchedIsAnErrorOfNext) {
  watch(folder_, {.changes = names_only, .recursive = true});
  fs::create_directory(folder_ / "a");
  const fault full("inotify_add_watch", ENOSPC);
  EXPECT_EQ(text_of(next()), "created a/");
  EXPECT_EQ(error_of_next(), errc::watch_limit);
  write_file(folder_ / "file");
  EXPECT_EQ(text_of(next()), "created file") << "the rest goes on";
}

TEST_F(FileWatcher, NewDirectoryIsReadAgainWhenDescriptorsAreFree) {
  watch(folder_, {.changes = names_only, .recursive = true});
  fs::create_directories(folder_ / "a/b");
  {
    const fault none_left("openat", EMFILE);
    EXPECT_EQ(text_of(next()), "created a/");
    EXPECT_EQ(error_of_next(), std::errc::too_many_files_open);
  }
  EXPECT_THAT(next(2), ElementsAre("created a/", "created a/b/"));
  write_file(folder_ / "a/b/file");
  EXPECT_EQ(text_of(next()), "created a/b/file");
}

TEST_F(FileWatcher, WithoutAnInstanceTheErrorNamesTheLimits) {
  const fault full("inotify_init1", EMFILE);
  try {
    const file_watcher refused(loop_);
    FAIL() << "no error";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::too_many_files_open);
    EXPECT_THAT(error.what(), HasSubstr("max_user_instances"));
  }
}

TEST_F(FileWatcher, WaitsWhenThereIsNoFreeDescriptor) {
  watch(folder_, {.changes = file_change::created});
  const fault full("epoll_create1", EMFILE, {.times = -1});
  auto waiting = gyre::spawn_future(loop_, watcher_.next());
  serve();
  ASSERT_NE(waiting.wait_for(0s), std::future_status::ready);
  write_file(folder_ / "new");
  while (waiting.wait_for(0s) != std::future_status::ready) loop_.run_once();
  EXPECT_EQ(text_of(waiting.get()), "created new");
}

TEST_F(FileWatcher, ReadThatFailsIsAnErrorOfNext) {
  watch(folder_);
  const fault broken("read", EIO);
  EXPECT_EQ(error_of_next().value(), EIO);
}

TEST_F(FileWatcher, WrongArgumentsAreRefused) {
  write_file(folder_ / "file");
  const auto error_of = [&](const fs::path& path, const gyre::io::file_watch_options& options) {
    try {
      watch(path, options);
    } catch (const std::system_error& error) {
      return error.code();
    }
    return std::error_code();
  };
  EXPECT_EQ(error_of(folder_ / "missing", {}), std::errc::no_such_file_or_directory);
  EXPECT_EQ(error_of("", {}), std::errc::no_such_file_or_directory);
  EXPECT_EQ(error_of(std::string("a\0b", 3), {}), std::errc::invalid_argument);
  EXPECT_EQ(error_of(folder_ / "missing/file", {.by_name = true}),
            std::errc::no_such_file_or_directory);
  EXPECT_EQ(error_of(folder_ / "file", {.recursive = true}), std::errc::not_a_directory);
  EXPECT_THROW(watch(folder_, {.recursive = true, .by_name = true}), std::invalid_argument);
  EXPECT_THROW(watch(folder_ / "", {.by_name = true}), std::invalid_argument);
  EXPECT_THROW(watch("..", {.by_name = true}), std::invalid_argument);
}

// ---- waits

TEST_F(FileWatcher, StopEndsTheWaitAndTakesNoEvent) {
  watch(folder_, {.changes = names_only});
  gyre::inplace_stop_source stop;
  auto stopped = gyre::spawn_future(loop_, watcher_.next(), stop.get_token());
  serve();
  EXPECT_EQ(loop_.metrics().descriptors_watched, 1U);
  std::jthread([&] { stop.request_stop(); }).join();
  serve();
  EXPECT_THROW(stopped.get(), std::system_error);
  EXPECT_EQ(loop_.metrics().descriptors_watched, 0U);
  write_file(folder_ / "file");
  EXPECT_EQ(text_of(next()), "created file");
}

TEST_F(FileWatcher, StopBeforeTheWaitTakesNoEvent) {
  watch(folder_, {.changes = names_only});
  write_file(folder_ / "file");
  gyre::inplace_stop_source stop;
  stop.request_stop();
  auto stopped = gyre::spawn_future(loop_, watcher_.next(), stop.get_token());
  serve();
  EXPECT_THROW(stopped.get(), std::system_error);
  EXPECT_EQ(text_of(next()), "created file");
}

TEST_F(FileWatcher, EventBeforeTheStopIsGiven) {
  watch(folder_, {.changes = names_only});
  gyre::inplace_stop_source stop;
  auto given = gyre::spawn_future(loop_, watcher_.next(), stop.get_token());
  serve();
  write_file(folder_ / "file");
  while (loop_.metrics().descriptors_watched > 0) loop_.poll();
  stop.request_stop();
  serve();
  EXPECT_EQ(text_of(given.get()), "created file");
}

TEST_F(FileWatcher, TimeLimitEndsAWait) {
  watch(folder_, {.changes = names_only});
  const auto waits = [](file_watcher& of) -> task<bool> {
    const auto event = co_await gyre::as_expected(gyre::with_timeout(of.next(), 1ms));
    co_return event.has_value();
  };
  EXPECT_FALSE(sync_wait(loop_, waits(watcher_)));
  write_file(folder_ / "file");
  EXPECT_EQ(text_of(next()), "created file");
}

TEST_F(FileWatcher, WaitForAnEventThatComesLater) {
  watch(folder_, {.changes = names_only});
  const auto make = [&]() -> task<> {
    co_await gyre::yield();
    write_file(folder_ / "file");
  };
  const auto wait = [&]() -> task<std::string> {
    const file_event event = co_await watcher_.next();
    co_return text_of(event);
  };
  const auto both = sync_wait(loop_, gyre::when_all(wait(), make()));
  EXPECT_EQ(std::get<0>(both), "created file");
}

TEST_F(FileWatcher, SeveralWaitsGetAnEventEach) {
  watch(folder_, {.changes = names_only});
  const auto make = [&]() -> task<> {
    co_await gyre::yield();
    for (const char* name : {"a", "b", "c"}) write_file(folder_ / name);
  };
  const auto wait = [&]() -> task<std::string> {
    const file_event event = co_await watcher_.next();
    co_return event.name;
  };
  const auto [a, b, c, nothing] = sync_wait(loop_, gyre::when_all(wait(), wait(), wait(), make()));
  EXPECT_EQ(a + b + c, "abc") << "one read brings all three";
}

TEST_F(FileWatcher, WaitMayBeDestroyedBeforeItsEvent) {
  watch(folder_, {.changes = names_only});
  {
    auto wait = watcher_.next();
    EXPECT_TRUE(wait.await_suspend(std::noop_coroutine()));
    serve();
    EXPECT_EQ(loop_.metrics().descriptors_watched, 1U);
  }
  EXPECT_EQ(loop_.metrics().descriptors_watched, 0U);
  write_file(folder_ / "file");
  EXPECT_EQ(text_of(next()), "created file");
}

TEST_F(FileWatcher, WatcherMayBeDestroyedWhileARenameMissesItsOtherEnd) {
  write_file(folder_ / "file");
  watch(folder_, {.changes = names_only});
  fs::rename(folder_ / "file", fs::path(folder_.native() + ".moved"));
  {
    auto wait = watcher_.next();
    EXPECT_TRUE(wait.await_suspend(std::noop_coroutine()));
    serve();
  }
  watcher_ = file_watcher(loop_);
  fs::remove(folder_.native() + ".moved");
  serve();
}

TEST_F(FileWatcher, EventsReachACoroutineOfAPool) {
  gyre::thread_pool pool({.workers = 1});
  watch(folder_, {.changes = names_only});
  const auto collect = [&]() -> task<int> {
    int seen = 0;
    const std::thread::id here = std::this_thread::get_id();
    while (seen < 100) {
      const file_event event = co_await watcher_.next();
      EXPECT_EQ(event.name, std::to_string(seen));
      EXPECT_EQ(std::this_thread::get_id(), here);
      ++seen;
    }
    co_return seen;
  };
  std::jthread maker([&] {
    for (int i = 0; i < 100; ++i) write_file(folder_ / std::to_string(i));
  });
  EXPECT_EQ(sync_wait(loop_, gyre::on(pool, collect())), 100);
}

TEST_F(FileWatcher, MayBeMovedAndDestroyedWithUnreadEvents) {
  watch(folder_);
  write_file(folder_ / "file");
  file_watcher moved = std::move(watcher_);
  EXPECT_EQ(text_of(sync_wait(loop_, moved.next())), "created file");
  watcher_ = std::move(moved);
}

}  // namespace
}  // namespace file_watcher_test
