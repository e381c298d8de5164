"""Operations that users ask for, one in each module. The command line and CI jobs call them."""
