// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/file_system.hpp>

#include <gyre/task/executor.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/awaited_error.hpp>
#include <tests/support/droppable.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace file_system_test {
namespace {

namespace io = gyre::io;
using gyre::sync_wait;
using gyre::task;
using gyre::test::error_of;
using gyre::test::temporary_folder;
using gyre::testing::open_descriptors;

template <class Awaitable>
std::string message_of(Awaitable&& awaitable) {
  try {
    static_cast<void>(sync_wait(std::forward<Awaitable>(awaitable)));
  } catch (const std::system_error& error) {
    return error.what();
  }
  return "";
}

::mode_t mode_of(const std::string& path) {
  struct ::stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(FileSystem, TellsTheStatusOfFilesAndSymlinks) {
  const temporary_folder folder;
  folder.make_file("file", "12345");
  folder.link("link", "file");
  EXPECT_EQ(sync_wait(io::status(folder / "link")).st_size, 5);
  EXPECT_TRUE(S_ISREG(sync_wait(io::status(folder / "link")).st_mode));
  EXPECT_TRUE(S_ISLNK(sync_wait(io::symlink_status(folder / "link")).st_mode));
  EXPECT_EQ(message_of(io::status("/no/such")), "status /no/such: No such file or directory");
  EXPECT_EQ(message_of(io::status(std::string("/\0a\0", 4))),
            "status /\\0a\\0 (a path cannot have a zero byte): Invalid argument");
  EXPECT_EQ(message_of(io::rename("a", std::string("b\0", 2))),
            "rename a to b\\0 (a path cannot have a zero byte): Invalid argument");
  EXPECT_EQ(error_of(io::status(folder / "file/x")), std::errc::not_a_directory);
}

TEST(FileSystem, TellsIfAFileExists) {
  const temporary_folder folder;
  folder.make_file("file");
  folder.link("dangling", "nowhere");
  EXPECT_TRUE(sync_wait(io::exists(folder / "file")));
  EXPECT_TRUE(sync_wait(io::exists(folder.path())));
  EXPECT_FALSE(sync_wait(io::exists(folder / "none")));
  EXPECT_FALSE(sync_wait(io::exists(folder / "file/x")));
  EXPECT_FALSE(sync_wait(io::exists(folder / "dangling")));
  EXPECT_EQ(error_of(io::exists(folder / std::string(300, 'x'))), std::errc::filename_too_long);
  EXPECT_EQ(error_of(io::exists(folder.path() + '\0')), std::errc::invalid_argument);
}

TEST(FileSystem, CreatesADirectory) {
  const temporary_folder folder;
  EXPECT_TRUE(sync_wait(io::create_directory(folder / "new", 0700)));
  EXPECT_EQ(mode_of(folder / "new"), 0700U);
  EXPECT_FALSE(sync_wait(io::create_directory(folder / "new")));
  folder.make_file("file");
  EXPECT_EQ(error_of(io::create_directory(folder / "file")), std::errc::file_exists);
  EXPECT_EQ(message_of(io::create_directory(folder / "a/b")),
            "create_directory " + (folder / "a/b") +
                " (create_directories() also makes the directories above): "
                "No such file or directory");
}

TEST(FileSystem, CreatesDirectoriesDownToThePath) {
  const temporary_folder folder;
  EXPECT_TRUE(sync_wait(io::create_directories(folder / "a/b//c/", 0700)));
  EXPECT_EQ(mode_of(folder / "a"), 0700U);
  EXPECT_EQ(mode_of(folder / "a/b/c"), 0700U);
  EXPECT_FALSE(sync_wait(io::create_directories(folder / "a/b/c")));
  EXPECT_FALSE(sync_wait(io::create_directories("/")));
  EXPECT_TRUE(sync_wait(io::create_directories(folder / "a/d")));
  folder.link("link", "a");
  EXPECT_TRUE(sync_wait(io::create_directories(folder / "link/e")));
  EXPECT_TRUE(folder.has("a/e"));
}

TEST(FileSystem, NamesTheDirectoryThatCannotBeCreated) {
  const temporary_folder folder;
  folder.make_file("file");
  folder.link("dangling", "nowhere");
  EXPECT_EQ(message_of(io::create_directories(folder / "file/a/b")),
            "create_directories " + (folder / "file/a/b") + ": Not a directory");
  EXPECT_EQ(error_of(io::create_directories(folder / "file")), std::errc::file_exists);
  EXPECT_EQ(error_of(io::create_directories(folder / "dangling/a")), std::errc::file_exists);
  EXPECT_EQ(error_of(io::create_directories("")), std::errc::no_such_file_or_directory);
  const gyre::testing::fault broken("mkdirat", ENOSPC);
  EXPECT_EQ(error_of(io::create_directories(folder / "x/y", 0777, &gyre::inline_executor())),
            std::errc::no_space_on_device);
}

TEST(FileSystem, GivesUpOnADirectoryThatVanishesAsSoonAsItIsMade) {
  const temporary_folder folder;
  const gyre::testing::fault vanishing("mkdirat", ENOENT, {.times = -1});
  EXPECT_EQ(error_of(io::create_directories(folder / "x/y", 0777, &gyre::inline_executor())),
            std::errc::no_such_file_or_directory);
}

TEST(FileSystem, GivesUpInADirectoryThatTakesNoOther) {
  EXPECT_EQ(message_of(io::create_directories("/proc/gyre")),
            "create_directories /proc/gyre: No such file or directory");
  EXPECT_EQ(message_of(io::create_directories("/proc/gyre/a/b")),
            "create_directories /proc/gyre: No such file or directory");
}

TEST(FileSystem, CreatesTheSameDirectoriesFromSeveralThreads) {
  const temporary_folder folder;
  for (int round = 0; round < 20; ++round) {
    const std::string path = folder / (std::to_string(round) + "/a/b/c/d");
    std::vector<std::jthread> threads;
    for (int each = 0; each < 4; ++each) {
      threads.emplace_back([&] { sync_wait(io::create_directories(path)); });
    }
    threads.clear();
    EXPECT_TRUE(std::filesystem::is_directory(path));
  }
}

TEST(FileSystem, RenamesAndReplaces) {
  const temporary_folder folder;
  folder.make_file("a", "a");
  folder.make_file("b", "b");
  sync_wait(io::rename(folder / "a", folder / "b"));
  EXPECT_FALSE(folder.has("a"));
  EXPECT_EQ(folder.content("b"), "a");
  EXPECT_EQ(message_of(io::rename("/no/a", "/no/b")),
            "rename /no/a to /no/b: No such file or directory");
  EXPECT_EQ(error_of(io::rename(folder / "b", std::string("x\0y", 3))),
            std::errc::invalid_argument);
}

TEST(FileSystem, RenamesWithoutReplacing) {
  const temporary_folder folder;
  folder.make_file("a", "a");
  folder.make_file("b", "b");
  EXPECT_EQ(error_of(io::rename(folder / "a", folder / "b", {.no_replace = true})),
            std::errc::file_exists);
  EXPECT_EQ(folder.content("b"), "b");
  sync_wait(io::rename(folder / "a", folder / "c", {.no_replace = true}));
  EXPECT_EQ(folder.content("c"), "a");
}

TEST(FileSystem, SaysHowToMoveToAnotherFileSystem) {
  const gyre::testing::fault elsewhere("renameat2", EXDEV);
  EXPECT_EQ(message_of(io::rename("a", "b", {}, &gyre::inline_executor())),
            "rename a to b (copy it there, and rename the copy): Invalid cross-device link");
}

TEST(FileSystem, RemovesAFileASymlinkOrAnEmptyDirectory) {
  const temporary_folder folder;
  folder.make_file("file");
  folder.make_folder("empty");
  folder.link("link", "empty");
  EXPECT_TRUE(sync_wait(io::remove(folder / "link")));
  EXPECT_TRUE(folder.has("empty"));
  EXPECT_TRUE(sync_wait(io::remove(folder / "file")));
  EXPECT_TRUE(sync_wait(io::remove(folder / "empty")));
  EXPECT_FALSE(sync_wait(io::remove(folder / "file")));
  EXPECT_FALSE(sync_wait(io::remove(folder / "none/file")));
  folder.make_folder("full/a");
  EXPECT_EQ(message_of(io::remove(folder / "full")),
            "remove " + (folder / "full") +
                " (remove_all() removes all that is in it): Directory not empty");
  const gyre::testing::fault broken("unlinkat", EBUSY);
  EXPECT_EQ(error_of(io::remove(folder / "full", &gyre::inline_executor())),
            std::errc::device_or_resource_busy);
}

// ---- remove_all

TEST(RemoveAll, RemovesAllThatIsBelow) {
  const temporary_folder folder;
  folder.make_folder("a/b/c");
  folder.make_file("a/b/file");
  folder.make_file("a/two\nlines");
  folder.make_file("a/" + std::string(255, 'x'));
  folder.make_file("sibling");
  EXPECT_EQ(sync_wait(io::remove_all(folder / "a")), 6U);
  EXPECT_FALSE(folder.has("a"));
  EXPECT_TRUE(folder.has("sibling"));
  EXPECT_EQ(sync_wait(io::remove_all(folder / "a")), 0U);
  EXPECT_EQ(sync_wait(io::remove_all(folder / "sibling")), 1U);
  EXPECT_EQ(sync_wait(io::remove_all(folder / "none/at/all")), 0U);
  folder.make_folder("b/c");
  EXPECT_EQ(sync_wait(io::remove_all(folder / "b/")), 2U);
}

TEST(RemoveAll, RemovesSymlinksNotTheirTargets) {
  const temporary_folder folder;
  folder.make_folder("kept");
  folder.make_file("kept/file");
  folder.make_folder("a");
  folder.link("a/link", folder / "kept");
  folder.link("link", "kept");
  EXPECT_EQ(sync_wait(io::remove_all(folder / "link")), 1U);
  EXPECT_EQ(sync_wait(io::remove_all(folder / "a")), 2U);
  EXPECT_TRUE(folder.has("kept/file"));
}

TEST(RemoveAll, RemovesDeepTreesWithFewDescriptors) {
  const temporary_folder folder;
  std::string path = "deep";
  for (int each = 0; each < 60; ++each) {
    folder.make_folder(path + "/side/way");
    folder.make_file(path + "/file");
    path += "/down";
  }
  const int before = open_descriptors();
  gyre::testing::manual_executor pool;
  EXPECT_EQ(sync_wait(io::remove_all(folder / "deep")), 60U * 4U);
  EXPECT_FALSE(folder.has("deep"));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(RemoveAll, RemovesLargeDirectories) {
  const temporary_folder folder;
  folder.make_files("many", 3000);
  EXPECT_EQ(sync_wait(io::remove_all(folder / "many")), 3001U);
  EXPECT_FALSE(folder.has("many"));
}

TEST(RemoveAll, RefusesPathsThatRemoveMoreThanTheySay) {
  const temporary_folder folder;
  folder.make_file("file");
  EXPECT_EQ(error_of(io::remove_all("/")), std::errc::device_or_resource_busy);
  EXPECT_EQ(error_of(io::remove_all("//")), std::errc::device_or_resource_busy);
  for (const char* const path : {".", "..", "./", "../", "/.", "/..//"}) {
    EXPECT_EQ(error_of(io::remove_all(folder.path() + "/" + path)), std::errc::invalid_argument);
  }
  EXPECT_EQ(error_of(io::remove_all(folder.path() + '\0')), std::errc::invalid_argument);
  EXPECT_EQ(sync_wait(io::remove_all("")), 0U);
  EXPECT_TRUE(folder.has("file"));
}

TEST(RemoveAll, NamesThePathThatCannotBeRemoved) {
  const temporary_folder folder;
  folder.make_folder("a/b");
  folder.make_file("a/b/file");
  gyre::executor* const here = &gyre::inline_executor();
  const int before = open_descriptors();
  {
    const gyre::testing::fault broken("unlinkat", EBUSY, {.after = 1});
    EXPECT_EQ(message_of(io::remove_all(folder / "a", here)),
              "remove_all " + (folder / "a/b/file") + ": Device or resource busy");
  }
  {
    const gyre::testing::fault broken("openat", EMFILE, {.after = 1});
    EXPECT_EQ(message_of(io::remove_all(folder / "a", here)),
              "remove_all " + (folder / "a/b") + ": Too many open files");
  }
  {
    const gyre::testing::fault broken("getdents64", EIO);
    EXPECT_EQ(message_of(io::remove_all(folder / "a", here)),
              "remove_all " + (folder / "a") + ": Input/output error");
  }
  {
    const gyre::testing::fault broken("openat", EMFILE);
    EXPECT_EQ(message_of(io::remove_all(folder / "a", here)),
              "remove_all " + (folder / "a") + ": Too many open files");
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(RemoveAll, TriesADirectoryAgainAsLongAsThatHelps) {
  const temporary_folder folder;
  folder.make_folder("a/b");
  folder.make_file("a/b/file");
  gyre::executor* const here = &gyre::inline_executor();
  {
    // Names that others add: rmdir(2) of "b" fails once after a name was removed, and then again.
    const gyre::testing::fault refilled("unlinkat", ENOTEMPTY, {.after = 2, .times = 1});
    EXPECT_EQ(sync_wait(io::remove_all(folder / "a", here)), 3U);
    EXPECT_EQ(refilled.hits(), 1);
  }
  folder.make_folder("a/b");
  folder.make_file("a/b/file");
  {
    const gyre::testing::fault full("unlinkat", ENOTEMPTY, {.after = 2, .times = -1});
    EXPECT_EQ(message_of(io::remove_all(folder / "a", here)),
              "remove_all " + (folder / "a/b") + ": Directory not empty");
    EXPECT_EQ(full.hits(), 2);
  }
  folder.make_file("a/file");
  const gyre::testing::fault refilled("unlinkat", ENOTEMPTY, {.after = 3, .times = 1});
  EXPECT_EQ(sync_wait(io::remove_all(folder / "a", here)), 3U);
  EXPECT_EQ(refilled.hits(), 1) << "of the root";
}

TEST(RemoveAll, TakesNamesThatVanishForRemoved) {
  const temporary_folder folder;
  folder.make_folder("a/b");
  std::vector<std::jthread> threads;
  for (int round = 0; round < 20; ++round) {
    folder.make_files("a/b", 50);
    folder.make_folder("a/c/d/e");
    for (int each = 0; each < 4; ++each) {
      threads.emplace_back([&] { sync_wait(io::remove_all(folder / "a")); });
    }
    threads.clear();
    EXPECT_FALSE(folder.has("a"));
  }
}

TEST(RemoveAll, NeverLeavesTheTreeWhileDirectoriesAreReplacedBySymlinks) {
  const temporary_folder folder;
  folder.make_folder("outside");
  folder.make_file("outside/kept");
  std::jthread swaps([&](const std::stop_token& stop) {
    const std::string inner = folder / "tree/inner";
    const std::string link = folder / "link";
    std::error_code ignored;
    while (!stop.stop_requested()) {
      std::filesystem::create_directory_symlink(folder / "outside", link, ignored);
      std::filesystem::rename(inner, folder / "spare", ignored);
      std::filesystem::rename(link, inner, ignored);
      std::filesystem::remove_all(folder / "spare", ignored);
    }
  });
  for (int round = 0; round < 200; ++round) {
    std::error_code ignored;
    std::filesystem::create_directories(folder / "tree/inner/a", ignored);
    const std::error_code error = error_of(io::remove_all(folder / "tree"));
    EXPECT_TRUE(!error || error == std::errc::directory_not_empty) << error.message();
    ASSERT_TRUE(folder.has("outside/kept"));
  }
}

// Lets the pool make the calls for some of the names, `meanwhile` happen, then the rest.
std::error_code remove_with_a_break(const temporary_folder& folder, std::string_view name,
                                    auto meanwhile) {
  gyre::testing::manual_executor pool;
  std::future<std::uint64_t> removed =
      gyre::spawn_future(pool, io::remove_all(folder / name, &pool));
  const std::size_t before = folder.entries(name);
  while (folder.entries(name) == before && pool.run_one()) continue;
  meanwhile();
  pool.run_all();
  try {
    removed.get();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

TEST(RemoveAll, StaysInTheDirectoryThatItHasOpened) {
  const temporary_folder folder;
  folder.make_files("parent/root", 1500);
  folder.make_file("parent/root/last");
  folder.make_folder("victim/root");
  folder.make_file("victim/root/precious");
  const auto swap = [&] {
    std::filesystem::rename(folder / "parent", folder / "moved");
    folder.link("parent", folder / "victim");
  };
  EXPECT_EQ(remove_with_a_break(folder, "parent/root", swap), std::error_code());
  EXPECT_TRUE(folder.has("victim/root/precious"));
  EXPECT_FALSE(folder.has("moved/root"));
}

TEST(RemoveAll, DoesNotGoOnWithADirectoryThatTookThePlaceOfTheRoot) {
  const temporary_folder folder;
  folder.make_files("root", 1500);
  folder.make_folder("other");
  folder.make_file("other/precious");
  const auto swap = [&] {
    std::filesystem::rename(folder / "root", folder / "moved");
    std::filesystem::rename(folder / "other", folder / "root");
  };
  EXPECT_EQ(remove_with_a_break(folder, "root", swap).value(), ESTALE);
  EXPECT_TRUE(folder.has("root/precious"));
}

TEST(RemoveAll, TakesASlashBehindTheNameForADemandOfADirectory) {
  const temporary_folder folder;
  folder.make_folder("target");
  folder.make_file("target/precious");
  folder.link("link", "target");
  folder.make_file("file");
  EXPECT_EQ(error_of(io::remove_all(folder / "link/")), std::errc::not_a_directory);
  EXPECT_EQ(error_of(io::remove_all(folder / "file/")), std::errc::not_a_directory);
  EXPECT_EQ(error_of(io::remove(folder / "file/")), std::errc::not_a_directory);
  EXPECT_TRUE(folder.has("target/precious"));
  EXPECT_EQ(sync_wait(io::remove_all(folder / "target//")), 2U);
  EXPECT_EQ(sync_wait(io::remove_all(folder / "no/such")), 0U);
}

TEST(FileSystem, TellsIfItMadeAnyDirectoryAndMakesParentsThatCanBeUsed) {
  const temporary_folder folder;
  EXPECT_TRUE(sync_wait(io::create_directories(folder / "a/b/.")));
  EXPECT_FALSE(sync_wait(io::create_directories(folder / "a/b/.")));
  EXPECT_TRUE(sync_wait(io::create_directories(folder / "c/d", 0500)));
  EXPECT_EQ(mode_of(folder / "c"), 0700U);
  EXPECT_EQ(mode_of(folder / "c/d"), 0500U);
}

TEST(RemoveAll, IsStoppedBetweenSomeNamesAndOthers) {
  const temporary_folder folder;
  folder.make_files("many", 1500);
  gyre::testing::manual_executor pool;
  gyre::testing::manual_executor home;
  gyre::inplace_stop_source source;
  bool cancelled = false;
  const auto work = [&]() -> task<> {
    auto removing = io::remove_all(folder / "many", &pool);
    try {
      co_await std::move(removing);
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
    }
  };
  const int before = open_descriptors();
  gyre::spawn(home, work(), {.stop = source.get_token()});
  home.run_all();
  pool.run_all();
  home.run_all();
  source.request_stop();
  home.run_all();
  EXPECT_TRUE(cancelled);
  pool.run_all();
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(folder.entries("many"), 1500U - 1024U);
}

gyre::test::droppable removes(gyre::executor&, std::string path, gyre::executor* pool) {
  auto removing = io::remove_all(std::move(path), pool);
  co_await std::move(removing);
  ADD_FAILURE() << "went on";
}

TEST(RemoveAll, MayBeDestroyedWhileItWaits) {
  const temporary_folder folder;
  gyre::testing::manual_executor pool;
  gyre::testing::manual_executor home;
  const int before = open_descriptors();
  for (const bool has_ended : {false, true}) {
    folder.make_folder("a");
    auto waiting = removes(home, folder / "a", &pool);
    if (has_ended) pool.run_all();
    waiting.drop();
    EXPECT_EQ(folder.has("a"), !has_ended);
    pool.run_all();
    home.run_all();
    EXPECT_EQ(open_descriptors(), before);
  }
}

}  // namespace
}  // namespace file_system_test
