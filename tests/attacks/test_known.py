"""Every way in that has ever worked, with the tests that keep it shut: none may be lost unseen."""

from tests.cases import table
from tests.terminal import ROOT

# C: whoever looks gets all; H: whoever edits gets all; M: some of it; L: little.
KNOWN = {
    "C1 links beside a model show the watcher's files": (
        "files/test_attacks.py::test_links_beside_a_model_show_no_file_of_the_watchers",
        "files/test_table.py::test_nothing_outside_is_read_and_nobody_waits",
        "files/test_purged.py::test_texts_configs_and_commits_of_before_are_purged",
    ),
    "H1 a branch that is a link shows a file on a run's page": (
        "files/test_attacks.py::test_a_branch_that_is_a_link_puts_nothing_on_a_runs_page",
    ),
    "H2 a download writes through links": (
        "files/test_attacks.py::test_downloads_write_through_no_link",
        "files/test_table.py::test_nothing_outside_is_written",
    ),
    "H3 a container reads passwords on loopback": (
        "lifecycle/test_hardening.py::test_an_editors_container_reads_no_packets_and_gains_no_rights",
        "memory/test_openings.py::test_a_new_boxs_limits_leave_nothing_open",
    ),
    "H4 a container writes in the account's home": (
        "profiles/test_limits.py::test_a_new_box_lets_nobody_mount_the_home_or_what_lies_beside_the_models",
        "profiles/test_limits.py::test_keys_and_programs_of_the_account_are_mounted_by_nobody",
        "memory/test_openings.py::test_a_disk_without_nosuid_and_nodev_is_named_with_its_reason",
    ),
    "H5 a pipe in a cache stops the worker": (
        "files/test_attacks.py::test_a_pipe_in_a_cache_stops_no_look",
        "test_broker.py::test_a_worker_that_takes_no_requests_is_told_of",
    ),
    "M1 a branch of a tebibyte is read whole": (
        "files/test_attacks.py::test_a_branch_of_a_tebibyte_is_not_read",
    ),
    "M2 what a registry answers is unpacked without a bound": (
        "gateway/test_outside.py::test_a_token_of_more_than_64_kib_is_none",
        "gateway/test_outside.py::test_no_answer_takes_more_time_or_memory_than_its_bounds",
    ),
    "M3 a build has the daemon fetch from loopback": (
        "images/test_image_rules.py::test_a_daemon_is_not_made_to_fetch_by_a_dockerfile",
        "images/jobs/test_builds.py::test_what_a_base_image_adds_to_a_build_is_read_before_it",
        "images/jobs/test_builds.py::test_a_build_begins_with_the_very_image_that_was_looked_at",
    ),
    "M4 a password is guessed from many addresses": (
        "people/test_logins.py::test_the_addresses_of_loopback_are_one",
        "people/test_logins.py::test_the_rest_of_an_ipv6_address_is_no_other_address",
        "people/test_logins.py::test_guesses_from_many_addresses_lock_the_name_everywhere",
    ),
    "M5 a log's line is obeyed by a terminal": (
        "logs/test_obeyed.py::test_a_log_on_a_terminal_is_text",
        "logs/test_obeyed.py::test_a_downloaded_log_is_text_unless_raw_is_wanted",
    ),
    "M6 a full disk keeps everybody out": (
        "people/test_full_disk.py::test_a_full_disk_keeps_nobody_out_and_is_told",
    ),
    "M7 a container has every right that Docker gives": (
        "lifecycle/test_hardening.py::test_an_editors_container_reads_no_packets_and_gains_no_rights",
    ),
    "L1 a message that is none ends the worker": (
        "test_broker.py::test_a_worker_outlives_whatever_stands_in_its_queue",
        "test_broker.py::test_an_open_redis_stops_the_start_unless_somebody_wants_it",
        "tls/test_redis.py::test_every_client_refuses_another_authority",
    ),
    "L2 a registry sends for its token to anywhere": (
        "gateway/test_outside.py::test_a_registry_sends_for_a_token_to_itself_or_to_the_internet",
    ),
    "L3 more is open to everybody than is said": (
        "test_access.py::test_nobody_gets_no_more_than_security_md_says",
        "test_access.py::test_every_address_lets_in_whom_it_should",
        "api/test_roles.py::test_every_operation_lets_in_whom_it_should",
    ),
    "L4 the gateway answers under any name": (
        "gateway/test_hostile.py::test_engines_are_asked_by_names_that_the_pages_have",
    ),
    "L5 a taken-over web has the database's rights, and changes keys": (
        "test_compose.py::test_the_role_in_the_database_is_no_superuser_and_has_a_password",
        "test_compose.py::test_web_can_read_the_keys_and_put_no_others_in_their_place",
        "compose/test_pin.py::test_images_have_exact_versions_and_the_repository_pins_no_digest",
    ),
    "L6 a row has the watcher open a file": (
        "external/monitoring/test_printed.py::test_a_changed_row_shows_nothing_of_another_file",
    ),
    "L7 a stranger's host names fill the log": (
        "logs/test_records.py::test_a_refused_host_is_one_line_a_minute",
        "logs/test_records.py::test_a_stranger_writes_so_many_lines_a_minute_and_no_more",
    ),
    "L8 a paste grows while it is read, and holds up all pages": (
        "commandline/test_any_text.py::test_a_paste_that_grows_while_it_is_read_is_refused",
        "attacks/test_documents.py::test_others_are_answered_while_a_document_is_read",
        "attacks/test_documents.py::test_others_are_answered_while_a_paste_is_read",
    ),
}


@table(("attack", "tests"), list(KNOWN.items()))
def test_each_has_its_tests(attack: str, tests: tuple[str, ...]) -> None:
    for each in tests:
        path, _colons, name = each.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(), each
