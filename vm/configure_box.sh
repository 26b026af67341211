#!/bin/sh
# Run inside the box while it is a folder: makes it a machine that Vagrant can log in to.
#
#   configure_box.sh PUBLIC_KEY
set -eu

useradd --create-home --shell /bin/bash vagrant
keys=$(getent passwd vagrant | cut -d: -f6)/.ssh
install -d -m 700 -o vagrant -g vagrant "$keys"
install -m 600 -o vagrant -g vagrant "$1" "$keys/authorized_keys"
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/vagrant
chmod 440 /etc/sudoers.d/vagrant

echo atoll >/etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 atoll\n' >/etc/hosts
printf '/dev/vda / ext4 noatime,errors=remount-ro 0 1\n' >/etc/fstab
printf 'auto lo\niface lo inet loopback\nauto eth0\niface eth0 inet dhcp\n' \
    >/etc/network/interfaces
# Vagrant asks for a connection many times; looking up who asks takes a second each.
printf 'UseDNS no\nGSSAPIAuthentication no\nHostKey /etc/ssh/ssh_host_ed25519_key\n' \
    >/etc/ssh/sshd_config.d/quick.conf

# One kind of key: to find the primes of another takes an emulated processor half a minute.
rm -f /etc/ssh/ssh_host_*
cat >/etc/systemd/system/first-boot.service <<UNIT
[Unit]
Description=Keys of this machine's own, and a file system as large as its disk
Before=ssh.service
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key
[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key
ExecStart=/sbin/resize2fs /dev/vda
[Install]
WantedBy=multi-user.target
UNIT
systemctl --quiet enable first-boot.service ssh.service
# Nothing may take the processor, or set the clock, in the middle of a run.
systemctl --quiet mask systemd-timesyncd.service apt-daily.timer apt-daily-upgrade.timer \
    e2scrub_all.timer e2scrub_reap.service fstrim.timer dpkg-db-backup.timer

printf 'MODULES=list\nCOMPRESS=zstd\n' >/etc/initramfs-tools/conf.d/small
printf 'virtio_pci\nvirtio_blk\nvirtio_net\next4\n' >>/etc/initramfs-tools/modules
update-initramfs -u -k all
