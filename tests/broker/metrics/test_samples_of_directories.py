"""What alerts ask of log directories is not asked of each log in them."""

from pathlib import Path

from penstock.broker.metrics.logs import directory_metrics, log_metrics
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.world.disk import RealDisk
from rig.logs import open_log


def test_figures_of_directories_are_told_without_those_of_their_logs(tmp_path: Path) -> None:
    disk = RealDisk()
    opened = open_log(disk, str(tmp_path))
    directories = LogDirectories([opened.directory], failed={"/gone": "no disk"})
    told = [one for one in directory_metrics(directories, disk).samples() if one is not None]
    names = [one.family.name.removeprefix("penstock_log_directory_") for one in told]
    assert names == ["kafka_log_logmanager_offlinelogdirectorycount", "free_bytes", "total_bytes"]
    assert told[0].value == 1
    assert {one.labels for one in told[1:]} == {(str(tmp_path),)}
    of_logs = [one.labels for one in log_metrics(directories).samples() if one is not None]
    assert of_logs == [("orders", "0")] * 3 + [(str(tmp_path),)]
    opened.directory.close()
