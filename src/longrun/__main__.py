import sys

from longrun.cli import main

sys.exit(main())
