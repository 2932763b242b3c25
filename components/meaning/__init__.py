"""What people bring, understood in one place: what its folders, tables, columns and names mean."""
